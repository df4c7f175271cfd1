// Command dispatch measures kube-apiserver's own webhook admission plugins with the hooks and reviews of
// benchmarks/engines/dispatch_worlds.py (dispatch.json of inputs.py). It measures matching, or with --hooks a chain of
// calls.
//
// Matching runs the plugin's ShouldCallHook over the hooks of its source, and the conversion to the version that a hook
// requests. The plugin's dispatcher does the same before its calls, so no network is involved. The chain runs the
// complete plugin, Admit or Validate. Both use custom resources with the converter of apiextensions-apiserver, and
// informers on client-go's fake clientset. The program decodes requests before it measures, because kube-apiserver's
// plugins receive decoded objects. Decoding has a line of its own.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/authentication/user"

	"fleethook/benchmarks/peers/internal/peer"
)

type inputs struct {
	Matching []struct {
		Name    string                         `json:"name"`
		Worlds  []world                        `json:"worlds"`
		Reviews []*admissionv1.AdmissionReview `json:"reviews"`
	} `json:"matching"`
	Chain struct {
		Mutating   []json.RawMessage                       `json:"mutating"`
		Validating []json.RawMessage                       `json:"validating"`
		Reviews    map[string]*admissionv1.AdmissionReview `json:"reviews"`
	} `json:"chain"`
}

type world struct {
	Hooks          int               `json:"hooks"`
	Configurations []json.RawMessage `json:"configurations"`
}

const wanted = 3 // hooks that match, in every world

func object(raw runtime.RawExtension) runtime.Object {
	if len(raw.Raw) == 0 || string(raw.Raw) == "null" {
		return nil
	}
	decoded := &unstructured.Unstructured{}
	peer.Must(decoded.UnmarshalJSON(raw.Raw))
	return decoded
}

// attributes returns the input of admission, as kube-apiserver's handler creates it. Each measurement needs new
// attributes, because mutation changes them.
func attributes(request *admissionv1.AdmissionRequest, new, old runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(
		new, old, schema.GroupVersionKind(request.Kind), request.Namespace, request.Name,
		schema.GroupVersionResource(request.Resource), request.SubResource, admission.Operation(request.Operation),
		nil, request.DryRun != nil && *request.DryRun,
		&user.DefaultInfo{Name: request.UserInfo.Username, Groups: request.UserInfo.Groups},
	)
}

// match runs the steps of the mutating dispatcher before its calls, and returns the number of hooks that it would call.
func match(plugin *mutating.Plugin, hooks []webhook.WebhookAccessor, given admission.Attributes, kinds admission.ObjectInterfaces) int {
	versions, count := &versioned{attributes: given, kinds: kinds}, 0
	for _, hook := range hooks {
		checked := given
		if versions.made != nil {
			checked = versions.made
		}
		invocation, refused := plugin.ShouldCallHook(context.Background(), hook, checked, kinds, versions)
		if refused != nil {
			peer.Must(refused)
		}
		if invocation == nil {
			continue
		}
		peer.Of(versions.VersionedAttribute(invocation.Kind))
		count++
	}
	return count
}

// versioned converts a request once for all hooks that request the same version, like the dispatcher's own accessor.
type versioned struct {
	attributes admission.Attributes
	kinds      admission.ObjectInterfaces
	made       *admission.VersionedAttributes
}

func (v *versioned) VersionedAttribute(kind schema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	if v.made != nil {
		return v.made, admission.ConvertVersionedAttributes(v.made, kind, v.kinds)
	}
	var err error
	v.made, err = admission.NewVersionedAttributes(v.attributes, kind, v.kinds)
	return v.made, err
}

func matching(given inputs) (cases []peer.Case) {
	for _, one := range given.Matching {
		var decoded [][2]runtime.Object
		for _, review := range one.Reviews {
			decoded = append(decoded, [2]runtime.Object{object(review.Request.Object), object(review.Request.OldObject)})
		}
		kinds := interfaces(one.Reviews)
		next := turns(len(one.Reviews))
		cases = append(cases, peer.Case{
			Labels: map[string]any{"benchmark": "dispatch", "name": one.Name, "part": "decode"},
			Call: func() {
				request := one.Reviews[next()].Request
				object(request.Object)
				object(request.OldObject)
			},
		})
		for _, its := range one.Worlds {
			plugin, source := mutatingPlugin(its.Configurations, nil)
			if found := len(source.Webhooks()); found != its.Hooks {
				peer.Must(fmt.Errorf("%d hooks instead of %d", found, its.Hooks))
			}
			next := turns(len(one.Reviews))
			cases = append(cases, peer.Case{
				Labels: map[string]any{"benchmark": "dispatch", "name": one.Name, "part": "match", "hooks": its.Hooks},
				Call: func() {
					number := next()
					made := attributes(one.Reviews[number].Request, decoded[number][0], decoded[number][1])
					if found := match(plugin, source.Webhooks(), made, kinds); found != wanted {
						peer.Must(fmt.Errorf("%s: %d hooks match", one.Name, found))
					}
				},
			})
		}
	}
	return cases
}

// turns returns a function that counts from 0 to count - 1, again and again.
func turns(count int) func() int {
	last := -1
	return func() int {
		last = (last + 1) % count
		return last
	}
}

func chain(given inputs, base string, authority []byte) (cases []peer.Case) {
	calls := &spans{}
	admit, _ := mutatingPlugin(pointed(given.Chain.Mutating, base, authority), calls)
	validate := validatingPlugin(pointed(given.Chain.Validating, base, authority), calls)
	for size, review := range given.Chain.Reviews {
		kinds := interfaces([]*admissionv1.AdmissionReview{review})
		request := review.Request
		labels := func(phase string) map[string]any {
			return map[string]any{"benchmark": "dispatch", "name": "chain", "phase": phase, "review": size, "hooks": wanted}
		}
		// Each call decodes the object, because mutation changes it. The figures include that time; `decode` measures
		// it alone.
		cases = append(cases, peer.Case{Labels: labels("decode"), Call: func() { object(request.Object) }})
		cases = append(cases, calls.beside(peer.Case{Labels: labels("mutating"), Call: func() {
			made := attributes(request, object(request.Object), nil)
			peer.Must(admit.Admit(context.Background(), made, kinds))
			marked := made.GetObject().(*unstructured.Unstructured).GetLabels()
			for number := range wanted {
				if marked[fmt.Sprintf("hook-%d", number)] != "seen" {
					peer.Must(fmt.Errorf("hook %d has not changed the object: %v", number, marked))
				}
			}
		}}))
		cases = append(cases, calls.beside(peer.Case{Labels: labels("validating"), Call: func() {
			made := attributes(request, object(request.Object), nil)
			peer.Must(validate.Validate(context.Background(), made, kinds))
		}}))
	}
	return cases
}

func main() {
	file := flag.String("inputs", "", "dispatch.json of inputs.py")
	hooks := flag.String("hooks", "", "https://127.0.0.1:PORT of `python -m benchmarks.engines.dispatch_hooks DIR`: measure the chain")
	authority := flag.String("ca", "", "file with the CA of its certificate")
	rounds := flag.Int("rounds", 5, "turns of each case")
	turn := flag.Duration("turn", 400*time.Millisecond, "duration of a turn")
	flag.Parse()
	var given inputs
	peer.ReadJSON(*file, &given)
	if *hooks == "" {
		peer.Rounds(*rounds, *turn, matching(given))
		return
	}
	peer.Rounds(*rounds, *turn, chain(given, *hooks, peer.Of(os.ReadFile(*authority))))
}
