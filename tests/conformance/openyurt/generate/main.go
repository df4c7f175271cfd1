// Command generate applies OpenYurt's YurtAppSet v1beta1 templates: it reads cases as JSON lines from standard input
// and prints each with the pools and the workload, or the error, that OpenYurt's own code returns.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/openyurtio/openyurt/pkg/apis/apps/v1beta1"
	"github.com/openyurtio/openyurt/pkg/apis/apps/v1beta2"
	"github.com/openyurtio/openyurt/pkg/yurtmanager/controller/yurtappset/workloadmanager"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// testCase is one line of the input; the members below Existing are added to the output.
type testCase struct {
	ID        string          `json:"id"`
	Subject   json.RawMessage `json:"subject"`
	NodePools json.RawMessage `json:"nodePools"`
	Pool      string          `json:"pool"`
	Revision  string          `json:"revision"`
	Existing  json.RawMessage `json:"existing"`
	Raw       bool            `json:"raw,omitempty"`
	Pools     []string        `json:"pools"`
	PoolError string          `json:"poolError,omitempty"`
	Workload  any             `json:"workload,omitempty"`
	Error     string          `json:"error,omitempty"`
}

func main() {
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	for {
		var one testCase
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = run(&one)
		}
		if err == nil {
			err = encoder.Encode(one)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "case %q: %v\n", one.ID, err)
			os.Exit(1)
		}
	}
}

// run sets the output members from OpenYurt's results. It returns an error if the input does not fit the API types.
func run(one *testCase) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1beta1.AddToScheme, v1beta2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var nodePools v1beta2.NodePoolList
	if err := json.Unmarshal(one.NodePools, &nodePools.Items); err != nil {
		return err
	}
	cli := fake.NewClientBuilder().WithScheme(scheme).WithLists(&nodePools).Build()
	if err := findPools(one, cli); err != nil {
		return err
	}
	if err := apply(one, cli, scheme); err != nil {
		return err
	}
	return spellTyped(one)
}

// spellTyped encodes the subject as clients of the API types do, so that tests can compare the workload literally. It
// leaves cases about the spelling (Raw) unchanged.
func spellTyped(one *testCase) error {
	if one.Raw {
		return nil
	}
	subject, err := decodeSubject(one)
	if err != nil {
		return err
	}
	one.Subject, err = json.Marshal(subject)
	return err
}

func findPools(one *testCase, cli client.Client) error {
	subject, err := decodeSubject(one)
	if err != nil {
		return err
	}
	err = recovered(func() error {
		names, err := workloadmanager.GetNodePoolsFromYurtAppSet(cli, subject)
		one.Pools = names.UnsortedList()
		slices.Sort(one.Pools)
		return err
	})
	if err != nil {
		one.PoolError = err.Error()
	}
	return nil
}

func apply(one *testCase, cli client.Client, scheme *runtime.Scheme) error {
	// Decodes the subject again, because OpenYurt may change its argument.
	subject, err := decodeSubject(one)
	if err != nil {
		return err
	}
	if subject.Spec.StatefulSetTemplate != nil {
		manager := workloadmanager.StatefulSetManager{Client: cli, Scheme: scheme}
		return write(one, &appsv1.StatefulSet{}, func(workload *appsv1.StatefulSet) error {
			return manager.ApplyTemplate(subject, one.Pool, one.Revision, workload)
		})
	}
	manager := workloadmanager.DeploymentManager{Client: cli, Scheme: scheme}
	return write(one, &appsv1.Deployment{}, func(workload *appsv1.Deployment) error {
		return manager.ApplyTemplate(subject, one.Pool, one.Revision, workload)
	})
}

func decodeSubject(one *testCase) (*v1beta1.YurtAppSet, error) {
	subject := &v1beta1.YurtAppSet{}
	err := json.Unmarshal(one.Subject, subject)
	return subject, err
}

// write sets the workload that OpenYurt would send to kube-apiserver, or the error.
func write[T any](one *testCase, workload *T, applyTemplate func(*T) error) error {
	if err := json.Unmarshal(one.Existing, workload); err != nil {
		return err
	}
	if err := recovered(func() error { return applyTemplate(workload) }); err != nil {
		one.Error = err.Error()
		return nil
	}
	one.Workload = workload
	return nil
}

// recovered turns a panic into an error, as controller-runtime does in a controller.
func recovered(call func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return call()
}
