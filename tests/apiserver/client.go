package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

type object = map[string]any

// Servers come and go here, so a connection is never worth keeping.
var plainHTTP = &http.Client{
	Timeout:   5 * time.Second,
	Transport: &http.Transport{DisableKeepAlives: true},
}

// admin talks to the kube-apiserver as a member of system:masters.
type admin struct {
	url  string
	http *http.Client
}

func newAdmin(url string, pki *pki) (*admin, error) {
	certificate, err := tls.X509KeyPair(pki.admin.cert, pki.admin.key)
	if err != nil {
		return nil, fmt.Errorf("load the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pki.ca.cert)
	return &admin{url: url, http: &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}},
		},
	}}, nil
}

func (a *admin) probe(ctx context.Context, path string) error {
	return probe(ctx, a.http, a.url+path)
}

func (a *admin) version(ctx context.Context) (string, error) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	err := a.do(ctx, http.MethodGet, "/version", nil, &version)
	return version.GitVersion, err
}

// create refuses fields that the server does not know: a manifest with a
// misspelt one must not pass.
func (a *admin) create(ctx context.Context, path string, body object, result any) error {
	return a.do(ctx, http.MethodPost, path+"?fieldValidation=Strict", body, result)
}

func (a *admin) do(ctx context.Context, method, path string, body object, result any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := send(a.http, request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func probe(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	_, err = send(client, request)
	return err
}

func send(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s: %s", response.Status, content)
	}
	return content, nil
}
