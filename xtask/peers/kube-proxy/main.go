// Command kube-proxy-peer lets the real proxiers of k8s.io/kubernetes write their rules once, in the network namespace
// that it is started in, from Services, EndpointSlices and a Node that it reads as a YAML or JSON stream on standard
// input. There is no API server and nothing keeps the rules up to date: it ends after the first sync.
//
//	kube-proxy-peer -mode iptables|nftables -node NAME [-zone ZONE] [-cluster-cidr CIDR[,CIDR]] < objects.yaml
//
// The proxiers are called as cmd/kube-proxy/app does: all Services, all slices, the node's labels, then "synced".
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/events"
	utilsysctl "k8s.io/component-helpers/node/util/sysctl"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	discoverydefaults "k8s.io/kubernetes/pkg/apis/discovery/v1"
	"k8s.io/kubernetes/pkg/proxy"
	"k8s.io/kubernetes/pkg/proxy/iptables"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	utiliptables "k8s.io/kubernetes/pkg/util/iptables"
)

// The labels by which kube-proxy's informers leave objects out (cmd/kube-proxy/app/server.go).
const (
	labelProxyName = "service.kubernetes.io/service-proxy-name"
	labelHeadless  = "service.kubernetes.io/headless"
)

type objects struct {
	services []*v1.Service
	slices   []*discovery.EndpointSlice
}

func main() {
	mode := flag.String("mode", "", "iptables or nftables")
	node := flag.String("node", "", "the node's name")
	zone := flag.String("zone", "", "the node's zone")
	cidrs := flag.String("cluster-cidr", "", "the pods' networks, one of each family at most")
	nodeIPs := flag.String("node-ips", "192.0.2.11,2001:db8::11", "the node's addresses, one of each family at most")
	serviceCIDRs := flag.String("service-cidrs", "", "the Services' networks (nftables mode)")
	flag.Parse()
	if err := run(*mode, *node, *zone, split(*cidrs), split(*nodeIPs), split(*serviceCIDRs)); err != nil {
		fmt.Fprintln(os.Stderr, "kube-proxy-peer:", err)
		os.Exit(1)
	}
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func run(mode, node, zone string, cidrs, nodeIPs, serviceCIDRs []string) error {
	if node == "" {
		return errors.New("-node is needed")
	}
	read, err := readObjects(os.Stdin)
	if err != nil {
		return err
	}
	for _, family := range []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol} {
		proxier, err := newProxier(mode, family, node, first(cidrs, family), first(nodeIPs, family))
		if err != nil {
			return fmt.Errorf("%s %s: %w", mode, family, err)
		}
		feed(proxier, read, zone, serviceCIDRs)
	}
	return nil
}

// first is the first address or CIDR of a family.
func first(texts []string, family v1.IPFamily) string {
	for _, text := range texts {
		if strings.Contains(text, ":") == (family == v1.IPv6Protocol) {
			return text
		}
	}
	return ""
}

func newProxier(mode string, family v1.IPFamily, node, cidr, nodeIP string) (proxy.Provider, error) {
	ctx := context.Background()
	var local proxyutil.LocalTrafficDetector = proxyutil.NewNoOpLocalDetector()
	if cidr != "" {
		local = proxyutil.NewDetectLocalByCIDR(cidr)
	}
	recorder := events.NewFakeRecorder(100)
	ip := net.ParseIP(nodeIP)
	// As in kube-proxy's own configuration: all addresses of the node, bit 14, no node ports on localhost.
	switch mode {
	case "iptables":
		protocol := utiliptables.ProtocolIPv4
		if family == v1.IPv6Protocol {
			protocol = utiliptables.ProtocolIPv6
		}
		return iptables.NewProxier(ctx, family, utiliptables.New(protocol), utilsysctl.New(), time.Hour, time.Second,
			false, false, 14, local, node, ip, recorder, nil, []string{}, false)
	case "nftables":
		return nftables.NewProxier(ctx, family, time.Hour, time.Second,
			false, 14, local, node, ip, recorder, nil, []string{"0.0.0.0/0", "::/0"}, false)
	}
	return nil, fmt.Errorf("no mode %q", mode)
}

func feed(proxier proxy.Provider, read objects, zone string, serviceCIDRs []string) {
	if zone != "" {
		proxier.OnTopologyChange(map[string]string{v1.LabelTopologyZone: zone})
	}
	proxier.OnServiceCIDRsChanged(serviceCIDRs)
	for _, service := range read.services {
		proxier.OnServiceAdd(service)
	}
	for _, slice := range read.slices {
		proxier.OnEndpointSliceAdd(slice)
	}
	proxier.OnServiceSynced()
	proxier.OnEndpointSlicesSynced()
}

func readObjects(from io.Reader) (objects, error) {
	var read objects
	decoder := yaml.NewYAMLToJSONDecoder(from)
	for {
		var raw map[string]any
		if err := decoder.Decode(&raw); err == io.EOF {
			return read, nil
		} else if err != nil {
			return read, err
		}
		switch raw["kind"] {
		case "Service":
			service := &v1.Service{}
			if err := convert(raw, service); err != nil {
				return read, err
			}
			complete(service)
			if service.Labels[labelProxyName] == "" && service.Spec.ClusterIP != v1.ClusterIPNone {
				read.services = append(read.services, service)
			}
		case "EndpointSlice":
			slice := &discovery.EndpointSlice{}
			if err := convert(raw, slice); err != nil {
				return read, err
			}
			discoverydefaults.SetObjectDefaults_EndpointSlice(slice)
			_, headless := slice.Labels[labelHeadless]
			_, other := slice.Labels[labelProxyName]
			if !headless && !other {
				read.slices = append(read.slices, slice)
			}
		}
	}
}

// complete fills in what the API server does: defaults, and the fields that say the same in two ways.
func complete(service *v1.Service) {
	coredefaults.SetObjectDefaults_Service(service)
	spec := &service.Spec
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP != "" {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if len(spec.IPFamilies) == 0 && spec.ClusterIP != v1.ClusterIPNone {
		for _, ip := range spec.ClusterIPs {
			family := v1.IPv4Protocol
			if strings.Contains(ip, ":") {
				family = v1.IPv6Protocol
			}
			spec.IPFamilies = append(spec.IPFamilies, family)
		}
	}
}

func convert(raw map[string]any, into any) error {
	text, err := json.Marshal(raw)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
