package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	rbacGroup     = "rbac.authorization.k8s.io"
	defaultGrants = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: leasehold
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update, watch]
`
)

// grant is a Role with what binds it to its user.
type grant struct {
	user     string
	role     object
	bindings []object
}

// readGrants takes the manifest as a user would apply it, except for the
// namespace and for one more subject: what the tests prove is the manifest.
func readGrants(path string) ([]grant, error) {
	content := []byte(defaultGrants)
	if path != "" {
		var err error
		if content, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("--rbac: %w", err)
		}
	}
	grants, err := parseGrants(content)
	if err != nil {
		return nil, fmt.Errorf("--rbac %s: %w", path, err)
	}
	return grants, nil
}

func parseGrants(manifest []byte) ([]grant, error) {
	var roles, bindings []object
	documents := yaml.NewDecoder(bytes.NewReader(manifest))
	for {
		var document object
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not YAML: %w", err)
		}
		metadata, _ := document["metadata"].(object)
		if metadata != nil {
			metadata["namespace"] = namespace
		}
		switch kind := document["kind"]; {
		case document == nil:
			// Only a comment between two separators.
		case metadata["name"] == nil:
			return nil, fmt.Errorf("a %v has no metadata.name", kind)
		case kind == "Role":
			roles = append(roles, document)
		case kind == "RoleBinding":
			bindings = append(bindings, document)
		case kind == "ServiceAccount":
			// Part of a complete manifest, but the candidates here are users.
		default:
			return nil, fmt.Errorf("holds a %v: only Role, RoleBinding and ServiceAccount are expected", kind)
		}
	}
	if len(roles) == 0 {
		return nil, errors.New("holds no Role")
	}

	var grants []grant
	bound := 0
	for _, role := range roles {
		name := role["metadata"].(object)["name"]
		full := grant{user: candidate, role: role}
		for _, binding := range bindings {
			ref, _ := binding["roleRef"].(object)
			if ref["kind"] != "Role" || ref["name"] != name {
				continue
			}
			subjects, _ := binding["subjects"].([]any)
			binding["subjects"] = append(subjects, userSubject(candidate))
			full.bindings = append(full.bindings, binding)
			bound++
		}
		if len(bindings) == 0 {
			full.bindings = []object{newBinding(name, candidate)}
		}
		less, err := withoutWatch(role)
		if err != nil {
			return nil, err
		}
		grants = append(grants, full, less)
	}
	if bound != len(bindings) {
		return nil, errors.New("a RoleBinding names a Role that the manifest does not hold")
	}
	return grants, nil
}

func withoutWatch(role object) (grant, error) {
	name := fmt.Sprintf("%v-%s", role["metadata"].(object)["name"], noWatch)
	all, _ := role["rules"].([]any)
	var rules []any
	for _, rule := range all {
		rule, _ := rule.(object)
		verbs, _ := rule["verbs"].([]any)
		if slices.Contains(verbs, any("*")) {
			return grant{}, errors.New(`a rule has the verb "*", from which watch cannot be taken: list the verbs`)
		}
		copied := make(object)
		for field, value := range rule {
			copied[field] = value
		}
		verbs = slices.DeleteFunc(slices.Clone(verbs), func(verb any) bool { return verb == "watch" })
		if len(verbs) == 0 {
			continue
		}
		copied["verbs"] = verbs
		rules = append(rules, copied)
	}
	return grant{
		user: noWatch,
		role: object{
			"apiVersion": role["apiVersion"],
			"kind":       "Role",
			"metadata":   object{"name": name, "namespace": namespace},
			"rules":      rules,
		},
		bindings: []object{newBinding(name, noWatch)},
	}, nil
}

func newBinding(role any, user string) object {
	return object{
		"apiVersion": rbacGroup + "/v1",
		"kind":       "RoleBinding",
		"metadata":   object{"name": role, "namespace": namespace},
		"roleRef":    object{"apiGroup": rbacGroup, "kind": "Role", "name": role},
		"subjects":   []any{userSubject(user)},
	}
}

func userSubject(name string) object {
	return object{"apiGroup": rbacGroup, "kind": "User", "name": name}
}

func applyGrants(ctx context.Context, admin *admin, grants []grant) error {
	const base = "/apis/" + rbacGroup + "/v1/namespaces/" + namespace
	for _, g := range grants {
		if err := admin.create(ctx, base+"/roles", g.role, nil); err != nil {
			return err
		}
		for _, binding := range g.bindings {
			if err := admin.create(ctx, base+"/rolebindings", binding, nil); err != nil {
				return err
			}
		}
	}
	// The authorizer learns of roles by a watch: a test must not see a 403
	// only because it was quick.
	for _, g := range grants {
		if err := awaitGrant(ctx, admin, g); err != nil {
			return err
		}
	}
	return nil
}

// awaitGrant asks for the first thing of each rule; a Role appears as a whole.
func awaitGrant(ctx context.Context, admin *admin, g grant) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	rules, _ := g.role["rules"].([]any)
	for _, rule := range rules {
		rule, _ := rule.(object)
		resource, subresource, _ := strings.Cut(first(rule["resources"]), "/")
		review := object{
			"apiVersion": "authorization.k8s.io/v1",
			"kind":       "SubjectAccessReview",
			"spec": object{
				"user": g.user,
				"resourceAttributes": object{
					"namespace":   namespace,
					"verb":        first(rule["verbs"]),
					"group":       first(rule["apiGroups"]),
					"resource":    resource,
					"subresource": subresource,
					"name":        first(rule["resourceNames"]),
				},
			},
		}
		for {
			var answer struct {
				Status struct {
					Allowed bool `json:"allowed"`
				} `json:"status"`
			}
			if err := admin.create(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review, &answer); err != nil {
				return err
			}
			if answer.Status.Allowed {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait until %s may %v: %w", g.user, rule, ctx.Err())
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

func first(list any) string {
	items, _ := list.([]any)
	if len(items) == 0 {
		return ""
	}
	item, _ := items[0].(string)
	return item
}
