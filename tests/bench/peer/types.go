package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	phaseAllocated = "Allocated"
	phaseFailed    = "Failed"
	phaseReleased  = "Released"
	typeNodes      = "nodes"
	finalizer      = "butler.butlerlabs.dev/ipallocation"
)

var groupVersion = schema.GroupVersion{Group: "butler.butlerlabs.dev", Version: "v1alpha1"}

// NetworkPool is the part of the kind that this controller reads and writes.
type NetworkPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              NetworkPoolSpec   `json:"spec"`
	Status            NetworkPoolStatus `json:"status,omitempty"`
}

// NetworkPoolSpec says which addresses there are.
type NetworkPoolSpec struct {
	CIDR     string          `json:"cidr"`
	Reserved []ReservedRange `json:"reserved,omitempty"`
}

// ReservedRange is never handed out.
type ReservedRange struct {
	CIDR string `json:"cidr"`
}

// NetworkPoolStatus counts what is used.
type NetworkPoolStatus struct {
	TotalIPs             int32              `json:"totalIPs"`
	AllocatedIPs         int32              `json:"allocatedIPs"`
	AvailableIPs         int32              `json:"availableIPs"`
	AllocationCount      int32              `json:"allocationCount"`
	FragmentationPercent int32              `json:"fragmentationPercent"`
	LargestFreeBlock     int32              `json:"largestFreeBlock"`
	ObservedGeneration   int64              `json:"observedGeneration,omitempty"`
	Conditions           []metav1.Condition `json:"conditions,omitempty"`
}

// NetworkPoolList is a list of them.
type NetworkPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []NetworkPool `json:"items"`
}

// IPAllocation is the part of the kind that this controller reads and writes.
type IPAllocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              IPAllocationSpec   `json:"spec"`
	Status            IPAllocationStatus `json:"status,omitempty"`
}

// IPAllocationSpec is the request.
type IPAllocationSpec struct {
	PoolRef          PoolReference   `json:"poolRef"`
	TenantClusterRef TenantReference `json:"tenantClusterRef"`
	Type             string          `json:"type"`
	Count            *int32          `json:"count,omitempty"`
}

// PoolReference names a pool in the same namespace.
type PoolReference struct {
	Name string `json:"name"`
}

// TenantReference names the cluster that the addresses are for.
type TenantReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// IPAllocationStatus is the answer.
type IPAllocationStatus struct {
	Phase              string             `json:"phase,omitempty"`
	CIDR               string             `json:"cidr,omitempty"`
	StartAddress       string             `json:"startAddress,omitempty"`
	EndAddress         string             `json:"endAddress,omitempty"`
	Addresses          []string           `json:"addresses,omitempty"`
	AllocatedCount     int32              `json:"allocatedCount,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	AllocatedAt        *metav1.Time       `json:"allocatedAt,omitempty"`
	ReleasedAt         *metav1.Time       `json:"releasedAt,omitempty"`
	AllocatedBy        string             `json:"allocatedBy,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// IPAllocationList is a list of them.
type IPAllocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []IPAllocation `json:"items"`
}

func addToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(
		groupVersion, &NetworkPool{}, &NetworkPoolList{}, &IPAllocation{}, &IPAllocationList{},
	)
	metav1.AddToGroupVersion(scheme, groupVersion)
}

// DeepCopy returns a copy that shares nothing.
func (in *NetworkPool) DeepCopy() *NetworkPool {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Reserved = slices.Clone(in.Spec.Reserved)
	out.Status.Conditions = copyConditions(in.Status.Conditions)
	return &out
}

// DeepCopyObject is asked for by runtime.Object.
func (in *NetworkPool) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject is asked for by runtime.Object.
func (in *NetworkPoolList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]NetworkPool, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopy()
	}
	return &out
}

// DeepCopy returns a copy that shares nothing.
func (in *IPAllocation) DeepCopy() *IPAllocation {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Count != nil {
		count := *in.Spec.Count
		out.Spec.Count = &count
	}
	out.Status.Addresses = slices.Clone(in.Status.Addresses)
	out.Status.AllocatedAt = in.Status.AllocatedAt.DeepCopy()
	out.Status.ReleasedAt = in.Status.ReleasedAt.DeepCopy()
	out.Status.Conditions = copyConditions(in.Status.Conditions)
	return &out
}

// DeepCopyObject is asked for by runtime.Object.
func (in *IPAllocation) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject is asked for by runtime.Object.
func (in *IPAllocationList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]IPAllocation, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopy()
	}
	return &out
}

func copyConditions(in []metav1.Condition) []metav1.Condition {
	if in == nil {
		return nil
	}
	out := make([]metav1.Condition, len(in))
	for i := range in {
		in[i].DeepCopyInto(&out[i])
	}
	return out
}
