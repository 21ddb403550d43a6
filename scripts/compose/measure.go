package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/commons-cluster/commons/scripts/harness"
)

// imageVariable names the image of Prometheus where none can be pulled.
const imageVariable = "PROMETHEUS_IMAGE"

// measure starts Prometheus: it has to find every node and the balancer, and to
// evaluate every rule, and none may find fault with five healthy nodes.
func measure(p *project) error {
	if os.Getenv(imageVariable) == "" {
		fmt.Println("   left out: there is no image of Prometheus here")
		return nil
	}
	if err := p.up("--profile", "five", "--profile", "observability", "up", "--detach", "prometheus"); err != nil {
		return err
	}
	if err := p.eventually(harness.ReadyTimeout, func() error { return p.wantSamples("up == 1 and on (instance) commons_ready == 1", len(five)) }); err != nil {
		return err
	}
	if err := p.eventually(harness.ReadyTimeout, func() error {
		return p.wantSamples(`up{job="commons-balancer"} == 1 and on () haproxy_frontend_http_requests_total{proxy="public"} > 0`, 1)
	}); err != nil {
		return err
	}
	if err := p.eventually(harness.ReadyTimeout, p.rulesHold); err != nil {
		return err
	}
	return errors.Join(p.load.WaitForMore(enoughWrites), p.load.cutShort(0))
}

// wantSamples asks Prometheus, and wants an answer of so many samples.
func (p *project) wantSamples(query string, want int) error {
	var answer struct {
		Data struct{ Result []struct{} }
	}
	if err := p.get(p.prometheus+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), &answer, http.StatusOK); err != nil {
		return err
	}
	if got := len(answer.Data.Result); got != want {
		return fmt.Errorf("%s has %d samples, want %d", query, got, want)
	}
	return nil
}

// rulesHold wants every rule evaluated, and none firing.
func (p *project) rulesHold() error {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError, State string }
			}
		}
	}
	if err := p.get(p.prometheus+"/api/v1/rules", &answer, http.StatusOK); err != nil {
		return err
	}
	evaluated := 0
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" || rule.State == "firing" {
				return fmt.Errorf("alert %s is %s, health %s %s", rule.Name, rule.State, rule.Health, rule.LastError)
			}
			evaluated++
		}
	}
	if evaluated == 0 {
		return errors.New("no rule is known")
	}
	fmt.Printf("   %d alerts evaluated, none fires\n", evaluated)
	return nil
}
