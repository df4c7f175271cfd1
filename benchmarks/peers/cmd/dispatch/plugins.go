package main

import (
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/configuration"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"fleethook/benchmarks/peers/internal/peer"
)

// mutatingPlugin returns the plugin with hooks in it, and a source of the same hooks, because the plugin's own is
// private.
func mutatingPlugin(configurations []json.RawMessage, calls *spans) (*mutating.Plugin, generic.Source) {
	plugin := peer.Of(mutating.NewMutatingWebhook(nil))
	var source generic.Source
	initialize(plugin.Webhook, objects(configurations, defaultedMutating), calls, func(factory informers.SharedInformerFactory) {
		source = configuration.NewMutatingWebhookConfigurationManager(factory, nil)
	})
	peer.Must(wait.PollUntilContextCancel(ever, tick, true, synced(source.HasSynced)))
	return plugin, source
}

func validatingPlugin(configurations []json.RawMessage, calls *spans) *validating.Plugin {
	plugin := peer.Of(validating.NewValidatingAdmissionWebhook(nil))
	initialize(plugin.Webhook, objects(configurations, defaultedValidating), calls, func(informers.SharedInformerFactory) {})
	return plugin
}

// initialize passes kube-apiserver's dependencies (client, informers, transport) to a plugin, and waits until it is
// ready.
func initialize(plugin *generic.Webhook, known []runtime.Object, calls *spans, also func(informers.SharedInformerFactory)) {
	labels := map[string]string{"team": "shop"}
	known = append(known, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: labels}})
	client := fake.NewClientset(known...)
	factory := informers.NewSharedInformerFactory(client, 0)
	if calls != nil {
		plugin.SetAuthenticationInfoResolverWrapper(calls.resolver)
	}
	plugin.SetExternalKubeClientSet(client)
	plugin.SetExternalKubeInformerFactory(factory)
	peer.Must(plugin.ValidateInitialization())
	also(factory)
	factory.Start(ever.Done())
	factory.WaitForCacheSync(ever.Done())
	if !plugin.WaitForReady() {
		peer.Must(fmt.Errorf("the plugin is not ready"))
	}
}

func objects[T any](configurations []json.RawMessage, defaulted func(*T) runtime.Object) (made []runtime.Object) {
	for _, text := range configurations {
		one := new(T)
		peer.Must(json.Unmarshal(text, one))
		made = append(made, defaulted(one))
	}
	return made
}

// defaultedMutating sets the defaults that kube-apiserver sets when it reads a configuration from storage. Its code
// (k8s.io/kubernetes/pkg/apis/admissionregistration/v1/defaults.go) is not made for import.
func defaultedMutating(made *registrationv1.MutatingWebhookConfiguration) runtime.Object {
	for i := range made.Webhooks {
		one := &made.Webhooks[i]
		fill(&one.FailurePolicy, registrationv1.Fail)
		fill(&one.MatchPolicy, registrationv1.Equivalent)
		fill(&one.NamespaceSelector, metav1.LabelSelector{})
		fill(&one.ObjectSelector, metav1.LabelSelector{})
		fill(&one.TimeoutSeconds, 10)
		fill(&one.ReinvocationPolicy, registrationv1.NeverReinvocationPolicy)
	}
	return made
}

// defaultedValidating does the same as defaultedMutating for validating webhooks.
func defaultedValidating(made *registrationv1.ValidatingWebhookConfiguration) runtime.Object {
	for i := range made.Webhooks {
		one := &made.Webhooks[i]
		fill(&one.FailurePolicy, registrationv1.Fail)
		fill(&one.MatchPolicy, registrationv1.Equivalent)
		fill(&one.NamespaceSelector, metav1.LabelSelector{})
		fill(&one.ObjectSelector, metav1.LabelSelector{})
		fill(&one.TimeoutSeconds, 10)
	}
	return made
}

func fill[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// pointed returns the configurations with the URLs of a server; the file has paths only.
func pointed(configurations []json.RawMessage, base string, authority []byte) (made []json.RawMessage) {
	for _, text := range configurations {
		var one map[string]any
		peer.Must(json.Unmarshal(text, &one))
		for _, hook := range one["webhooks"].([]any) {
			path := hook.(map[string]any)["clientConfig"].(map[string]any)["url"].(string)
			hook.(map[string]any)["clientConfig"] = map[string]any{"url": strings.TrimSuffix(base, "/") + path, "caBundle": authority}
		}
		made = append(made, peer.Of(json.Marshal(one)))
	}
	return made
}

// interfaces returns the object interfaces of custom resources. Every resource of the reviews has v1 and v2, which
// differ only in their names.
func interfaces(reviews []*admissionv1.AdmissionReview) admission.ObjectInterfaces {
	registry := runtime.NewEquivalentResourceRegistry()
	for _, review := range reviews {
		for _, version := range []string{"v1", "v2"} {
			resource, kind := schema.GroupVersionResource(review.Request.Resource), schema.GroupVersionKind(review.Request.Kind)
			resource.Version, kind.Version = version, version
			for _, subresource := range []string{"", "status"} {
				registry.RegisterKindFor(resource, subresource, kind)
			}
		}
	}
	definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group:      reviews[0].Request.Kind.Group,
		Versions:   []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}, {Name: "v2"}},
		Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
	}}
	converters := peer.Of(conversion.NewCRConverterFactory(nil, nil))
	convert, _, err := converters.NewConverter(definition)
	peer.Must(err)
	return &admission.RuntimeObjectInterfaces{
		ObjectCreater: unstructuredscheme.NewUnstructuredCreator(), ObjectTyper: unstructuredscheme.NewUnstructuredObjectTyper(),
		ObjectDefaulter: nothing{}, ObjectConvertor: convert, EquivalentResourceMapper: registry,
	}
}

// nothing sets no defaults; the schemas of benchmarks/engines/dispatch_worlds.py have none.
type nothing struct{}

func (nothing) Default(runtime.Object) {}
