// Command peer is a plain client-go controller that does the part of butler-ipam's work that a
// benchmark compares: it hands out ranges to IPAllocations by best fit, releases them, and keeps
// the counters of NetworkPools.
//
// It is made as such controllers are made: informers with an index on spec.poolRef.name, a work
// queue of keys, eight workers, a bitmap of the pool rebuilt in each pass under a lock, one update
// of the allocation's status; a pool's counters are written by a worker of their own, as often as
// it comes round. No limit of requests per second, and none of the queue but for what failed. It is
// correct as long as it runs alone: what it has chosen and not yet seen is in its memory only.
// It leaves out what does not happen in the benchmark: pinned ranges, parts of a pool, tenants,
// events, metrics, leader election.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

func main() {
	config := &rest.Config{QPS: -1, UserAgent: "peer", APIPath: "/apis"}
	flag.StringVar(&config.Host, "server", "", "URL of the API server")
	flag.StringVar(&config.BearerTokenFile, "token-file", "", "file with a bearer token")
	flag.StringVar(&config.CAFile, "certificate-authority", "", "file with the server's authority")
	workers := flag.Int("workers", 8, "allocations that are worked on at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, config, *workers); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, config *rest.Config, workers int) error {
	scheme := runtime.NewScheme()
	addToScheme(scheme)
	config.GroupVersion = &groupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return err
	}
	c, err := newController(client)
	if err != nil {
		return err
	}
	return c.run(ctx, workers)
}
