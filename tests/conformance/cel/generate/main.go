// Command generate prints the value and the actual cost of CEL expressions, computed by kube-apiserver's code.
//
// Usage: go run . < ../expressions.json > ../costs.json
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// release is the Kubernetes release whose functions expressions may use.
const release = "1.36"

type input struct {
	Object      map[string]any `json:"object"`
	Request     map[string]any `json:"request"`
	Expressions []string       `json:"expressions"`
}

type measured struct {
	Expression string `json:"expression"`
	Cost       uint64 `json:"cost"`
	Value      *bool  `json:"value,omitempty"`
	Error      string `json:"error,omitempty"`
}

// allowGet allows the verb get and has no opinion on all others.
type allowGet struct{}

func (allowGet) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "get" {
		return authorizer.DecisionAllow, "granted", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func main() {
	raw, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var in input
	if err := kjson.Unmarshal(raw, &in); err != nil {
		log.Fatal(err)
	}
	compiler := admissioncel.NewCompiler(environment.MustBaseEnvSet(version.MustParse(release)))
	out := []measured{}
	for _, expression := range in.Expressions {
		out = append(out, measure(compiler, in, expression))
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(out); err != nil {
		log.Fatal(err)
	}
}

func measure(compiler admissioncel.Compiler, in input, expression string) measured {
	one := measured{Expression: expression}
	compiled := compiler.CompileCELExpression(
		&matchconditions.MatchCondition{Name: "measured", Expression: expression},
		admissioncel.OptionalVariableDeclarations{HasAuthorizer: true},
		environment.StoredExpressions,
	)
	if compiled.Error != nil {
		one.Error = "compile: " + strings.Split(compiled.Error.Error(), "\n")[0]
		return one
	}
	who := &user.DefaultInfo{Name: "jane", UID: "7", Groups: []string{"dev"}}
	checks := library.NewAuthorizerVal(who, allowGet{})
	value, details, err := compiled.Program.ContextEval(context.Background(), map[string]any{
		"object":                     in.Object,
		"oldObject":                  nil,
		"namespaceObject":            nil,
		"request":                    in.Request,
		"authorizer":                 checks,
		"authorizer.requestResource": library.NewResourceAuthorizerVal(who, allowGet{}, resource{}),
	})
	if details != nil && details.ActualCost() != nil {
		one.Cost = *details.ActualCost()
	}
	if err != nil {
		one.Error = err.Error()
		return one
	}
	if answer, ok := value.Value().(bool); ok {
		one.Value = &answer
	}
	return one
}

// resource is the resource of the request.
type resource struct{}

func (resource) GetName() string      { return "web" }
func (resource) GetNamespace() string { return "default" }
func (resource) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}
func (resource) GetSubresource() string { return "" }
