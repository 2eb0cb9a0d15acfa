package main

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reconcileAllocation makes one pass over one IPAllocation.
func (c *controller) reconcileAllocation(ctx context.Context, key string) error {
	object, found, err := c.allocations.GetStore().GetByKey(key)
	if err != nil || !found {
		return err
	}
	a := object.(*IPAllocation).DeepCopy()
	switch {
	case a.DeletionTimestamp != nil:
		return c.release(ctx, a)
	case a.Status.Phase == phaseAllocated:
		return nil
	case !slices.Contains(a.Finalizers, finalizer):
		a.Finalizers = append(a.Finalizers, finalizer)
		return c.update(ctx, allocations, a.Namespace, a.Name, "", a)
	}
	return c.allocate(ctx, key, a)
}

func (c *controller) release(ctx context.Context, a *IPAllocation) error {
	if !slices.Contains(a.Finalizers, finalizer) {
		return nil
	}
	if a.Status.Phase != phaseReleased {
		now := metav1.Now()
		a.Status.Phase = phaseReleased
		a.Status.ReleasedAt = &now
		setReady(&a.Status.Conditions, false, "Released", "the range was given back", a.Generation)
		if err := c.update(ctx, allocations, a.Namespace, a.Name, "status", a); err != nil {
			return err
		}
	}
	a.Finalizers = slices.DeleteFunc(a.Finalizers, func(f string) bool { return f == finalizer })
	return c.update(ctx, allocations, a.Namespace, a.Name, "", a)
}

func (c *controller) allocate(ctx context.Context, key string, a *IPAllocation) error {
	object, found, err := c.pools.GetStore().GetByKey(poolKey(a))
	if err != nil || !found {
		return err // its arrival wakes the allocation
	}
	pool := object.(*NetworkPool)
	if pool.DeletionTimestamp != nil {
		return nil
	}
	b, given, err := c.choose(pool, key, a)
	if errors.Is(err, errExhausted) {
		c.requests.AddAfter(key, failedAgain)
		if a.Status.Phase == phaseFailed {
			return nil
		}
		a.Status.Phase = phaseFailed
		setReady(&a.Status.Conditions, false, "PoolExhausted", err.Error(), a.Generation)
		return c.update(ctx, allocations, a.Namespace, a.Name, "status", a)
	}
	if err != nil {
		return err
	}
	describe(&a.Status, b, given, a.Generation)
	return c.update(ctx, allocations, a.Namespace, a.Name, "status", a)
}

var errExhausted = errors.New("no free block is large enough")

// choose returns a range for an allocation. A choice stands until the cache shows the range in the
// allocation's status, or shows that the allocation is gone.
func (c *controller) choose(pool *NetworkPool, key string, a *IPAllocation) (*bitmap, span, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	b, err := c.bitmap(pool)
	if err != nil {
		return nil, span{}, err
	}
	if earlier, found := c.chosen[a.UID]; found {
		return b, earlier.span, nil
	}
	for uid, one := range c.chosen {
		if !c.exists(one.key, uid) {
			delete(c.chosen, uid)
		} else if one.pool == poolKey(a) {
			b.take(one.span)
		}
	}
	given, fits := b.bestFit(wanted(a))
	if !fits {
		return nil, span{}, errExhausted
	}
	c.chosen[a.UID] = choice{key, poolKey(a), given}
	return b, given, nil
}

// bitmap returns the pool's bitmap as the cache shows it, and forgets choices that it shows.
func (c *controller) bitmap(pool *NetworkPool) (*bitmap, error) {
	b, err := newBitmap(&pool.Spec)
	if err != nil {
		return nil, err
	}
	held, err := c.allocations.GetIndexer().ByIndex(byPool, pool.Namespace+"/"+pool.Name)
	if err != nil {
		return nil, err
	}
	for _, object := range held {
		if a, ok := object.(*IPAllocation); ok {
			if s, ok := b.held(a); ok {
				b.take(s)
				delete(c.chosen, a.UID)
			}
		}
	}
	return b, nil
}

func (c *controller) exists(key string, uid types.UID) bool {
	object, found, err := c.allocations.GetStore().GetByKey(key)
	if err != nil || !found {
		return false
	}
	a, ok := object.(*IPAllocation)
	return ok && a.UID == uid
}

func describe(status *IPAllocationStatus, b *bitmap, given span, generation int64) {
	now := metav1.Now()
	status.Phase = phaseAllocated
	status.StartAddress = b.address(given.first).String()
	status.EndAddress = b.address(given.last).String()
	status.CIDR = status.StartAddress + "-" + status.EndAddress
	status.Addresses = nil
	for at := given.first; at <= given.last; at++ {
		status.Addresses = append(status.Addresses, b.address(at).String())
	}
	status.AllocatedCount = int32(given.last - given.first + 1)
	status.AllocatedAt, status.AllocatedBy = &now, "peer"
	status.ObservedGeneration = generation
	setReady(&status.Conditions, true, "Allocated", status.CIDR, generation)
}

func wanted(a *IPAllocation) int {
	switch {
	case a.Spec.Count != nil:
		return int(*a.Spec.Count)
	case a.Spec.Type == typeNodes:
		return 5
	}
	return 8
}
