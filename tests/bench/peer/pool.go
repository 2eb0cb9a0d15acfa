package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
)

// reconcilePool makes one pass over one NetworkPool: it counts what its allocations hold.
func (c *controller) reconcilePool(ctx context.Context, key string) error {
	object, found, err := c.pools.GetStore().GetByKey(key)
	if err != nil || !found {
		return err
	}
	pool := object.(*NetworkPool).DeepCopy()
	before := pool.DeepCopy()
	if err := c.count(pool); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.Status, pool.Status) {
		return nil
	}
	return c.update(ctx, pools, pool.Namespace, pool.Name, "status", pool)
}

func (c *controller) count(pool *NetworkPool) error {
	empty, err := newBitmap(&pool.Spec)
	if err != nil {
		return err
	}
	c.lock.Lock()
	b, err := c.bitmap(pool)
	c.lock.Unlock()
	if err != nil {
		return err
	}
	held, err := c.allocations.GetIndexer().ByIndex(byPool, pool.Namespace+"/"+pool.Name)
	if err != nil {
		return err
	}
	holders := 0
	for _, object := range held {
		if a, ok := object.(*IPAllocation); ok && a.Status.StartAddress != "" {
			holders++
		}
	}
	total, _ := empty.count()
	free, largest := b.count()
	status := &pool.Status
	status.TotalIPs, status.AvailableIPs = int32(total), int32(free)
	status.AllocatedIPs, status.AllocationCount = int32(total-free), int32(holders)
	status.LargestFreeBlock, status.FragmentationPercent = int32(largest), 0
	if free > 0 {
		status.FragmentationPercent = int32(100 - 100*largest/free)
	}
	status.ObservedGeneration = pool.Generation
	message := fmt.Sprintf("%d/%d IPs available (%d allocations)", free, total, holders)
	setReady(&status.Conditions, true, "Ready", message, pool.Generation)
	return nil
}
