// Command wire prints how the fields of Kubernetes' types stand in protobuf.
//
// It reads struct tags of the published modules by reflection; see wire.py, which runs it.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// field is a name, a kind of value, a shape, and the message that the value is, if it is one.
type field [4]string

// message has the fields of a type by their numbers.
type message map[string]field

var (
	found    = map[string]message{}
	readable = reflect.TypeFor[interface{ Unmarshal([]byte) error }]()
)

func main() {
	utilruntime.Must(extensionsv1.AddToScheme(scheme.Scheme))
	utilruntime.Must(metav1.AddMetaToScheme(scheme.Scheme))
	for _, kind := range scheme.Scheme.AllKnownTypes() {
		visit(kind)
	}
	utilruntime.Must(json.NewEncoder(os.Stdout).Encode(found))
}

// visit notes a type and those that it is made of, and returns its name in OpenAPI.
func visit(kind reflect.Type) string {
	path := strings.Replace(kind.PkgPath(), "k8s.io/", "io.k8s.", 1)
	name := strings.ReplaceAll(path, "/", ".") + "." + kind.Name()
	if _, known := found[name]; known {
		return name
	}
	fields := message{}
	found[name] = fields
	if kind.Kind() == reflect.Slice {
		// A list that is a message of its own, as protobuf has no lists of lists.
		fields["1"] = field{"", "string", "list", ""}
		return name
	}
	for at := range kind.NumField() {
		if number, described := describe(kind.Field(at)); number != "" {
			fields[number] = described
		}
	}
	return name
}

// describe returns the number of a field, and what stands there; no number if it is not sent.
func describe(from reflect.StructField) (string, field) {
	tag := strings.Split(from.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return "", field{}
	}
	shown := strings.Split(from.Tag.Get("json"), ",")
	name, shape := shown[0], "value"
	for _, part := range tag[2:] {
		if after, named := strings.CutPrefix(part, "name="); named && name == "" {
			name = after
		}
	}
	options := strings.Join(shown[1:], ",")
	if from.Tag.Get("json") != "" && !strings.Contains(options, "omitempty") {
		shape = "shown"
	}
	kind := from.Type
	isMessage := func() bool { return kind.Name() != "" && reflect.PointerTo(kind).Implements(readable) }
	switch {
	case options == "inline":
		shape = "inline"
	case kind.Kind() == reflect.Pointer:
		kind, shape = kind.Elem(), "pointer"
	case kind.Kind() == reflect.Map:
		kind, shape = kind.Elem(), "map"
	case kind.Kind() == reflect.Slice && isMessage():
		shape = "pointer"
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Uint8:
		shape = "pointer"
	case kind.Kind() == reflect.Slice:
		kind, shape = kind.Elem(), "list"
	}
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch kind.Kind() {
	case reflect.String:
		return tag[1], field{name, "string", shape, ""}
	case reflect.Bool:
		return tag[1], field{name, "bool", shape, ""}
	case reflect.Float64:
		return tag[1], field{name, "double", shape, ""}
	case reflect.Struct:
		return tag[1], field{name, "message", shape, visit(kind)}
	case reflect.Slice:
		if isMessage() {
			return tag[1], field{name, "message", shape, visit(kind)}
		}
		return tag[1], field{name, "bytes", shape, ""}
	default:
		return tag[1], field{name, "int", shape, ""}
	}
}
