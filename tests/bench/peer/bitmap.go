package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// span is a stretch of addresses, both ends included, as offsets from the pool's first address.
type span struct {
	first, last int
}

// bitmap has one entry for each address of a pool: whether it is taken.
type bitmap struct {
	base  uint32
	taken []bool
}

// newBitmap returns the bitmap of a pool in which only the reserved ranges are taken.
func newBitmap(spec *NetworkPoolSpec) (*bitmap, error) {
	prefix, err := netip.ParsePrefix(spec.CIDR)
	if err != nil {
		return nil, err
	}
	if !prefix.Addr().Is4() {
		return nil, fmt.Errorf("%s is no IPv4 CIDR", spec.CIDR)
	}
	b := &bitmap{number(prefix.Masked().Addr()), make([]bool, 1<<(32-prefix.Bits()))}
	for _, reserved := range spec.Reserved {
		inner, err := netip.ParsePrefix(reserved.CIDR)
		if err != nil {
			return nil, err
		}
		first := int(number(inner.Masked().Addr()) - b.base)
		b.take(span{first, first + 1<<(32-inner.Bits()) - 1})
	}
	return b, nil
}

// take marks a stretch, as far as it lies in the pool.
func (b *bitmap) take(s span) {
	for at := max(s.first, 0); at <= min(s.last, len(b.taken)-1); at++ {
		b.taken[at] = true
	}
}

// bestFit returns the beginning of the smallest free block that holds count addresses, the lowest
// of those that are equally small.
func (b *bitmap) bestFit(count int) (span, bool) {
	best, size := 0, len(b.taken)+1
	b.eachFree(func(first, length int) {
		if length >= count && length < size {
			best, size = first, length
		}
	})
	return span{best, best + count - 1}, size <= len(b.taken)
}

// eachFree calls visit for each free block.
func (b *bitmap) eachFree(visit func(first, length int)) {
	first := -1
	for at, taken := range b.taken {
		switch {
		case !taken && first < 0:
			first = at
		case taken && first >= 0:
			visit(first, at-first)
			first = -1
		}
	}
	if first >= 0 {
		visit(first, len(b.taken)-first)
	}
}

// count returns how many addresses are free, and how many the largest free block holds.
func (b *bitmap) count() (free, largest int) {
	b.eachFree(func(_, length int) {
		free += length
		largest = max(largest, length)
	})
	return free, largest
}

// address returns the address at an offset.
func (b *bitmap) address(offset int) netip.Addr {
	var octets [4]byte
	binary.BigEndian.PutUint32(octets[:], b.base+uint32(offset))
	return netip.AddrFrom4(octets)
}

// held returns the stretch that an allocation's status shows.
func (b *bitmap) held(a *IPAllocation) (span, bool) {
	first, err := netip.ParseAddr(a.Status.StartAddress)
	if err != nil || !first.Is4() {
		return span{}, false
	}
	last, err := netip.ParseAddr(a.Status.EndAddress)
	if err != nil || !last.Is4() {
		return span{}, false
	}
	return span{int(number(first)) - int(b.base), int(number(last)) - int(b.base)}, true
}

func number(address netip.Addr) uint32 {
	octets := address.As4()
	return binary.BigEndian.Uint32(octets[:])
}
