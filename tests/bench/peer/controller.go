package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	byPool      = "spec.poolRef.name"
	allocations = "ipallocations"
	pools       = "networkpools"
	failedAgain = 30 * time.Second
)

type queue = workqueue.TypedRateLimitingInterface[string]

// choice is a range that was chosen for an allocation whose status the cache does not show yet.
type choice struct {
	key, pool string
	span      span
}

// controller hands out ranges to IPAllocations and counts what NetworkPools hold.
type controller struct {
	client      rest.Interface
	allocations cache.SharedIndexInformer
	pools       cache.SharedIndexInformer
	requests    queue
	counts      queue

	lock   sync.Mutex
	chosen map[types.UID]choice
}

func newController(client rest.Interface) (*controller, error) {
	c := &controller{
		client:      client,
		allocations: informer(client, allocations, &IPAllocation{}, cache.Indexers{byPool: poolOf}),
		pools:       informer(client, pools, &NetworkPool{}, cache.Indexers{}),
		requests:    newQueue("requests"),
		counts:      newQueue("counts"),
		chosen:      map[types.UID]choice{},
	}
	_, err := c.allocations.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.allocationChanged,
		UpdateFunc: func(_, object any) { c.allocationChanged(object) },
		DeleteFunc: c.allocationChanged,
	})
	if err != nil {
		return nil, err
	}
	_, err = c.pools.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.poolChanged,
		UpdateFunc: c.poolUpdated,
	})
	return c, err
}

func informer(
	client rest.Interface, resource string, example runtime.Object, indexers cache.Indexers,
) cache.SharedIndexInformer {
	source := cache.NewListWatchFromClient(
		client, resource, metav1.NamespaceAll, fields.Everything(),
	)
	return cache.NewSharedIndexInformer(source, example, 0, indexers)
}

// newQueue returns a queue that holds back what failed, and nothing else.
func newQueue(name string) queue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](
		5*time.Millisecond, time.Minute,
	)
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		limiter, workqueue.TypedRateLimitingQueueConfig[string]{Name: name},
	)
}

func poolOf(object any) ([]string, error) {
	a, ok := object.(*IPAllocation)
	if !ok {
		return nil, fmt.Errorf("%T is no IPAllocation", object)
	}
	return []string{poolKey(a)}, nil
}

func poolKey(a *IPAllocation) string { return a.Namespace + "/" + a.Spec.PoolRef.Name }

func (c *controller) allocationChanged(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	a, ok := object.(*IPAllocation)
	if !ok {
		utilruntime.HandleError(fmt.Errorf("%T is no IPAllocation", object))
		return
	}
	c.requests.Add(a.Namespace + "/" + a.Name)
	c.counts.Add(poolKey(a))
}

// poolUpdated passes over what is no change of the spec: it may be the counters of our own.
func (c *controller) poolUpdated(before, after any) {
	earlier, _ := before.(*NetworkPool)
	if later, ok := after.(*NetworkPool); ok && earlier.Generation != later.Generation {
		c.poolChanged(after)
	}
}

func (c *controller) poolChanged(object any) {
	pool, ok := object.(*NetworkPool)
	if !ok {
		utilruntime.HandleError(fmt.Errorf("%T is no NetworkPool", object))
		return
	}
	key := pool.Namespace + "/" + pool.Name
	c.counts.Add(key)
	waiting, err := c.allocations.GetIndexer().ByIndex(byPool, key)
	utilruntime.HandleError(err)
	for _, object := range waiting {
		if a, ok := object.(*IPAllocation); ok && a.Status.Phase != phaseAllocated {
			c.requests.Add(a.Namespace + "/" + a.Name)
		}
	}
}

// run works until the context ends.
func (c *controller) run(ctx context.Context, workers int) error {
	var running sync.WaitGroup
	running.Go(func() { c.allocations.RunWithContext(ctx) })
	running.Go(func() { c.pools.RunWithContext(ctx) })
	synced := []cache.InformerSynced{c.allocations.HasSynced, c.pools.HasSynced}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		for range workers {
			running.Go(func() { work(ctx, c.requests, c.reconcileAllocation) })
		}
		running.Go(func() { work(ctx, c.counts, c.reconcilePool) })
	}
	<-ctx.Done()
	c.requests.ShutDown()
	c.counts.ShutDown()
	running.Wait()
	return ctx.Err()
}

func work(ctx context.Context, from queue, reconcile func(context.Context, string) error) {
	for {
		key, over := from.Get()
		if over {
			return
		}
		err := reconcile(ctx, key)
		switch {
		case err == nil || apierrors.IsNotFound(err):
			from.Forget(key)
		case apierrors.IsConflict(err):
			from.AddRateLimited(key)
		default:
			utilruntime.HandleErrorWithContext(ctx, err, "pass failed", "key", key)
			from.AddRateLimited(key)
		}
		from.Done(key)
	}
}

// update writes an object, or its status, with its resourceVersion; the answer replaces it.
func (c *controller) update(
	ctx context.Context, resource, namespace, name, subresource string, object runtime.Object,
) error {
	request := c.client.Put().Namespace(namespace).Resource(resource).Name(name)
	if subresource != "" {
		request = request.SubResource(subresource)
	}
	return request.Body(object).Do(ctx).Into(object)
}

func setReady(
	conditions *[]metav1.Condition, ready bool, reason, message string, generation int64,
) {
	value := metav1.ConditionFalse
	if ready {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: "Ready", Status: value, Reason: reason, Message: message,
		ObservedGeneration: generation,
	})
}
