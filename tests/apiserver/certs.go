package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	caCert            = "ca.crt"
	serverCert        = "kube-apiserver.crt"
	serverKey         = "kube-apiserver.key"
	serviceAccountKey = "service-account.key"
)

// pki is all the key material of one run.
type pki struct {
	ca     *authority
	caFile string
	// A bundle in which a client has to look past the first authority.
	bundle []byte
	admin  credential
	// The same user, by every form of private key that clients meet.
	pkcs8, pkcs1, sec1 credential
	// The same user, in X.509 version 1.
	version1 credential
}

// credential is a certificate with its key, both as PEM.
type credential struct{ cert, key []byte }

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

func newPKI(dir string) (*pki, error) {
	ca, err := newAuthority("leasehold-tests-ca")
	if err != nil {
		return nil, err
	}
	unrelated, err := newAuthority("unrelated-ca")
	if err != nil {
		return nil, err
	}
	p := &pki{ca: ca, bundle: slices.Concat(unrelated.pem, ca.pem)}

	server, err := ca.issueServer()
	if err != nil {
		return nil, err
	}
	serviceAccounts, err := newECKey()
	if err != nil {
		return nil, err
	}
	// kube-apiserver derives the public key too from this file, which it does
	// not do with PKCS#8.
	serviceAccountsPEM, err := encodeSEC1(serviceAccounts)
	if err != nil {
		return nil, err
	}
	if p.caFile, err = writeFile(dir, caCert, 0o644, ca.pem); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		serverCert:        server.cert,
		serverKey:         server.key,
		serviceAccountKey: serviceAccountsPEM,
	} {
		if _, err := writeFile(dir, name, 0o600, content); err != nil {
			return nil, err
		}
	}

	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make an RSA key: %w", err)
	}
	if p.admin, err = ca.issueClient("admin", "system:masters", encodePKCS8); err != nil {
		return nil, err
	}
	if p.pkcs8, err = ca.issueClient(candidate, "", encodePKCS8); err != nil {
		return nil, err
	}
	if p.sec1, err = ca.issueClient(candidate, "", encodeSEC1); err != nil {
		return nil, err
	}
	p.pkcs1.key = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)})
	if p.pkcs1.cert, err = ca.sign(clientTemplate(candidate, ""), rsaKey.Public()); err != nil {
		return nil, err
	}
	p.version1 = p.pkcs8
	p.version1.cert, err = ca.toVersion1(p.pkcs8.cert)
	return p, err
}

func newAuthority(name string) (*authority, error) {
	key, err := newECKey()
	if err != nil {
		return nil, err
	}
	template := newTemplate(pkix.Name{CommonName: name})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	self := &authority{cert: template, key: key}
	if self.pem, err = self.sign(template, key.Public()); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(self.pem)
	if self.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("parse the certificate of %s: %w", name, err)
	}
	return self, nil
}

func (a *authority) issueServer() (credential, error) {
	key, err := newECKey()
	if err != nil {
		return credential{}, err
	}
	template := newTemplate(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost", "kubernetes"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	return a.issue(template, key, encodePKCS8)
}

func (a *authority) issueClient(user, group string, encode func(*ecdsa.PrivateKey) ([]byte, error)) (credential, error) {
	key, err := newECKey()
	if err != nil {
		return credential{}, err
	}
	return a.issue(clientTemplate(user, group), key, encode)
}

func (a *authority) issue(template *x509.Certificate, key *ecdsa.PrivateKey, encode func(*ecdsa.PrivateKey) ([]byte, error)) (credential, error) {
	cert, err := a.sign(template, key.Public())
	if err != nil {
		return credential{}, err
	}
	encoded, err := encode(key)
	return credential{cert: cert, key: encoded}, err
}

func (a *authority) sign(template *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// toVersion1 signs a certificate again without its version and its extensions.
// MicroK8s issues such certificates.
func (a *authority) toVersion1(certificate []byte) ([]byte, error) {
	type parts struct {
		Fields, Algorithm asn1.RawValue
		Signature         asn1.BitString
	}
	var whole parts
	block, _ := pem.Decode(certificate)
	if _, err := asn1.Unmarshal(block.Bytes, &whole); err != nil {
		return nil, fmt.Errorf("read a certificate: %w", err)
	}
	fields := asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true}
	for rest := whole.Fields.Bytes; len(rest) > 0; {
		var field asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &field); err != nil {
			return nil, fmt.Errorf("read the fields of a certificate: %w", err)
		}
		if field.Class == asn1.ClassUniversal {
			fields.Bytes = append(fields.Bytes, field.FullBytes...)
		}
	}
	signed, err := asn1.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write the fields of a certificate: %w", err)
	}
	hash := sha256.Sum256(signed)
	signature, err := a.key.Sign(rand.Reader, hash[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	der, err := asn1.Marshal(parts{
		asn1.RawValue{FullBytes: signed}, whole.Algorithm, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)},
	})
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// clientTemplate follows how kube-apiserver reads certificates: the common
// name is the user, each organization a group.
func clientTemplate(user, group string) *x509.Certificate {
	subject := pkix.Name{CommonName: user}
	if group != "" {
		subject.Organization = []string{group}
	}
	template := newTemplate(subject)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return template
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		Subject: subject,
		// Tests may run under a clock that is a little off.
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().AddDate(0, 1, 0),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

func newECKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an EC key: %w", err)
	}
	return key, nil
}

func encodePKCS8(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a PKCS#8 key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// encodeSEC1 puts the name of the curve before the key, as openssl does: a
// client must look past that block.
func encodeSEC1(key *ecdsa.PrivateKey) ([]byte, error) {
	prime256v1, err := asn1.Marshal(asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7})
	if err != nil {
		return nil, fmt.Errorf("encode the name of a curve: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a SEC1 key: %w", err)
	}
	return slices.Concat(
		pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: prime256v1}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	), nil
}
