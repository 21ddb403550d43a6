package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	patience     = time.Minute            // for anything that a cluster does
	probeEvery   = 200 * time.Millisecond // in place of the probes' periods
	restartAfter = 500 * time.Millisecond // in place of the kubelet's backoff
)

// cluster stands in for Kubernetes: it runs the pods of the StatefulSet as processes, with the
// arguments, variables, probes and volumes of the manifests. Each pod has a loopback address,
// and names and paths of the pods are replaced by addresses and directories of this machine.
type cluster struct {
	t       *testing.T
	binary  string
	dir     string
	network string // beginning of the pods' addresses
	set     manifest
	env     map[string]string // the settings
	pods    []*pod
	doomed  map[string]bool // claims to delete when their pods end
	jobs    map[string]string
}

// pod is a pod of the StatefulSet. Its process is started again until it is stopped.
type pod struct {
	number  int
	version string // of the template and the settings
	env     []string
	process *os.Process
	code    int // of the last process that ended
	mutex   sync.Mutex
	stop    context.CancelFunc
	ended   chan struct{}
}

func newCluster(t *testing.T, binary string) *cluster {
	t.Helper()
	pid := os.Getpid()
	return &cluster{
		t: t, binary: binary, dir: t.TempDir(), network: fmt.Sprintf("127.%d.%d.", 1+pid>>8%250, pid%250),
		doomed: map[string]bool{}, jobs: map[string]string{},
	}
}

func (c *cluster) address(number int) string { return c.network + strconv.Itoa(10+number) }

func (c *cluster) secret(name string) string { return filepath.Join(c.dir, "secrets", name) }
func (c *cluster) claim(name string) string  { return filepath.Join(c.dir, "claims", name) }

var (
	reference = regexp.MustCompile(`\$\(([A-Z_]+)\)`)
	podName   = regexp.MustCompile(`commons-(\d)\.commons-nodes`)
)

// local returns a value of a manifest for this machine. number is that of the pod, -1 for a
// pod without a name.
func (c *cluster) local(spec podSpec, number int, value string) string {
	value = podName.ReplaceAllStringFunc(value, func(name string) string {
		return c.address(must(strconv.Atoi(podName.FindStringSubmatch(name)[1])))
	})
	if gossip, is := strings.CutPrefix(value, "commons-nodes:"); is {
		var all []string
		for i := range c.set.Spec.Replicas {
			all = append(all, c.address(i)+":"+gossip)
		}
		return strings.Join(all, ",")
	}
	value = strings.ReplaceAll(value, "0.0.0.0:", c.address(number)+":")
	value = strings.ReplaceAll(value, "s3://backups/commons", "file://"+filepath.Join(c.dir, "store"))
	option, path, is := strings.Cut(value, "=")
	if !is {
		option, path = "", value
	} else {
		option += "="
	}
	if !strings.HasPrefix(path, "/") {
		return value
	}
	for _, mount := range spec.Containers[0].VolumeMounts {
		if rest, below := strings.CutPrefix(path, mount.MountPath); below && (rest == "" || rest[0] == '/') {
			return option + c.mounted(spec, number, mount.Name) + rest
		}
	}
	c.t.Errorf("%s is on no volume, and the root is read-only", value)
	return value
}

// mounted returns the directory of a volume.
func (c *cluster) mounted(spec podSpec, number int, name string) string {
	for _, v := range spec.Volumes {
		switch {
		case v.Name != name:
		case v.Secret.SecretName != "":
			return c.secret(v.Secret.SecretName)
		default:
			return c.claim(v.PersistentVolumeClaim.ClaimName)
		}
	}
	for _, template := range c.set.Spec.VolumeClaimTemplates {
		if template.Metadata.Name == name {
			return c.claim(name + "-commons-" + strconv.Itoa(number))
		}
	}
	c.t.Errorf("a mounted volume %s does not exist", name)
	return ""
}

// variables returns the environment of a container.
func (c *cluster) variables(spec podSpec, settings map[string]string, number int) (env []string) {
	values := map[string]string{}
	maps.Copy(values, settings)
	for _, v := range spec.Containers[0].Env {
		if v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			v.Value = "commons-" + strconv.Itoa(number)
		}
		values[v.Name] = reference.ReplaceAllStringFunc(v.Value, func(name string) string { return values[name[2:len(name)-1]] })
	}
	for name, value := range values {
		env = append(env, name+"="+c.local(spec, number, value))
	}
	return env
}

// apply makes the cluster that of the manifests: new pods start at once. Of the others only the
// last one is restarted, to save time: scripts/chaos restarts all, one after the other.
func (c *cluster) apply(all manifests) error {
	c.set = all.one(c.t, "StatefulSet", "commons")
	c.env = all.one(c.t, "ConfigMap", c.set.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name).Data
	if err := c.scale(c.set.Spec.Replicas); err != nil {
		return err
	}
	last := -1
	for i, p := range c.pods {
		if p.version != c.version() {
			p.version, last = c.version(), i
		}
	}
	if last < 0 {
		return nil
	}
	if err := c.ready(); err != nil {
		return err
	}
	return c.restart(last)
}

// version identifies the settings of a pod. The test has one program for all images.
func (c *cluster) version() string {
	return string(must(json.Marshal([]any{c.set.Spec.Template, c.env})))
}

func (c *cluster) scale(replicas int) error {
	for len(c.pods) > replicas {
		if err := c.end(len(c.pods) - 1); err != nil {
			return err
		}
		c.pods = c.pods[:len(c.pods)-1]
	}
	for len(c.pods) < replicas {
		c.pods = append(c.pods, c.start(len(c.pods)))
	}
	return nil
}

func (c *cluster) start(number int) *pod {
	spec := c.set.Spec.Template.Spec
	ctx, stop := context.WithCancel(context.Background())
	p := &pod{number: number, version: c.version(), env: c.variables(spec, c.env, number), stop: stop, ended: make(chan struct{})}
	for _, mount := range spec.Containers[0].VolumeMounts {
		dir := c.mounted(spec, number, mount.Name)
		if _, err := os.Stat(dir); err != nil && strings.HasPrefix(dir, c.secret("")) {
			c.t.Errorf("the pod waits for a secret: %v", err)
		}
		must(0, os.MkdirAll(dir, 0o700))
	}
	args := make([]string, len(spec.Containers[0].Args))
	for i, arg := range spec.Containers[0].Args {
		args[i] = c.local(spec, number, arg)
	}
	log := must(os.OpenFile(c.log(number), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	go func() {
		defer close(p.ended)
		defer log.Close()
		for ctx.Err() == nil {
			cmd := exec.Command(c.binary, args...)
			cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = log, log, p.env, "/"
			must(0, cmd.Start())
			p.mutex.Lock()
			p.process = cmd.Process
			p.mutex.Unlock()
			if ctx.Err() != nil {
				_ = cmd.Process.Signal(syscall.SIGTERM)
			}
			_ = cmd.Wait() // its code is that of the state
			p.mutex.Lock()
			p.code = cmd.ProcessState.ExitCode()
			p.mutex.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(restartAfter):
			}
		}
	}()
	return p
}

func (c *cluster) log(number int) string {
	return filepath.Join(c.dir, "commons-"+strconv.Itoa(number)+".log")
}

// end ends a pod as the kubelet does. Its volume goes if it was deleted.
func (c *cluster) end(number int) error {
	p := c.pods[number]
	p.mutex.Lock()
	p.stop()
	if p.process != nil {
		_ = p.process.Signal(syscall.SIGTERM) // it may have ended
	}
	p.mutex.Unlock()
	select {
	case <-p.ended:
	case <-time.After(endsWithin):
		return fmt.Errorf("commons-%d does not end within %v", number, endsWithin)
	}
	for _, template := range c.set.Spec.VolumeClaimTemplates {
		name := template.Metadata.Name + "-commons-" + strconv.Itoa(number)
		if c.doomed[name] {
			delete(c.doomed, name)
			return os.RemoveAll(c.claim(name))
		}
	}
	return nil
}

func (c *cluster) restart(number int) error {
	if err := c.end(number); err != nil {
		return err
	}
	c.pods[number] = c.start(number)
	return c.ready()
}

// ready waits until the probes of all pods succeed, and every TCP port accepts connections.
func (c *cluster) ready() error {
	deadline := time.Now().Add(patience)
	for {
		err := c.probe()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(probeEvery)
	}
}

func (c *cluster) probe() error {
	spec := c.set.Spec.Template.Spec.Containers[0]
	for _, p := range c.pods {
		for _, probe := range []probe{spec.StartupProbe, spec.LivenessProbe, spec.ReadinessProbe} {
			if out, code := c.try(p, probe); code != 0 {
				return fmt.Errorf("commons-%d: %+v: %d: %s\n%s", p.number, probe, code, out, tail(c.log(p.number)))
			}
		}
		for _, port := range spec.Ports {
			if port.Protocol != "UDP" {
				conn, err := net.Dial("tcp", net.JoinHostPort(c.address(p.number), strconv.Itoa(port.ContainerPort)))
				if err != nil {
					return err
				}
				conn.Close()
			}
		}
	}
	return nil
}

func (c *cluster) try(p *pod, probe probe) (out string, code int) {
	if probe.Exec != nil {
		return c.exec(p, probe.Exec.Command)
	}
	for _, port := range c.set.Spec.Template.Spec.Containers[0].Ports {
		if port.Name != probe.HTTPGet.Port {
			continue
		}
		res, err := http.Get("http://" + net.JoinHostPort(c.address(p.number), strconv.Itoa(port.ContainerPort)) + probe.HTTPGet.Path)
		if err != nil {
			return err.Error(), 1
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return res.Status, 1
		}
		return "", 0
	}
	return "no port " + probe.HTTPGet.Port, 1
}

// exec runs a command in a pod.
func (c *cluster) exec(p *pod, command []string) (out string, code int) {
	if command[0] != "/commons" {
		return command[0] + ": the image has only /commons", 127
	}
	args := make([]string, len(command)-1)
	for i, arg := range command[1:] {
		args[i] = c.local(c.set.Spec.Template.Spec, p.number, arg)
	}
	return run(c.binary, args, p.env)
}

func run(binary string, args, env []string) (out string, code int) {
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Dir = env, "/"
	text, err := cmd.CombinedOutput()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return string(text), exit.ExitCode()
	}
	if err != nil {
		return err.Error(), 126
	}
	return string(text), 0
}

func tail(file string) string {
	const shown = 2000
	text, _ := os.ReadFile(file)
	return string(text[max(0, len(text)-shown):])
}

// kubectl carries out a command of the manual.
func (c *cluster) kubectl(dir string, stdin []byte, args []string) (out string, err error) {
	flags := map[string]string{}
	var words, inside []string
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(args[i], "=")
		switch {
		case args[i] == "--":
			inside, args = args[i+1:], args[:i]
		case name == "-n" || name == "-k" || name == "-f" || name == "-o":
			i++
			flags[name] = args[i]
		case has && strings.HasPrefix(name, "--"):
			flags[name] = value
		default:
			words = append(words, args[i])
		}
	}
	if flags["-n"] != "" && flags["-n"] != "commons" {
		return "", errors.New("another namespace")
	}
	last := words[len(words)-1]
	switch strings.Join(words[:min(2, len(words))], " ") {
	case "create namespace", "port-forward pod/commons-0", "delete job":
		return "", nil
	case "create secret":
		return c.createSecret(dir, last, flags)
	case "apply":
		return "", c.applied(dir, stdin, flags)
	case "rollout status":
		return "", c.ready()
	case "scale statefulset/commons":
		return "", c.scale(must(strconv.Atoi(flags["--replicas"])))
	case "exec commons-0", "exec commons-3", "exec commons-4":
		out, code := c.exec(c.pods[number(last)], inside)
		if code != 0 {
			return out, fmt.Errorf("exit code %d", code)
		}
		return out, nil
	case "delete pod":
		return "", c.restart(number(last))
	case "delete pvc":
		for _, claim := range words[2:] {
			if number(claim) < len(c.pods) {
				c.doomed[claim] = true
			} else if err := os.RemoveAll(c.claim(claim)); err != nil {
				return "", err
			}
		}
		return "", nil
	case "wait job/commons-restore":
		if out := c.jobs["commons-restore"]; out != "" {
			return "", errors.New(out)
		}
		return "", nil
	}
	return "", fmt.Errorf("kubectl %q is not known to the test", args)
}

func number(pod string) int { return must(strconv.Atoi(pod[strings.LastIndexByte(pod, '-')+1:])) }

type secretManifest struct {
	Kind     string                `json:"kind"`
	Metadata struct{ Name string } `json:"metadata"`
	Data     map[string]string     `json:"data"`
}

func (c *cluster) createSecret(dir, name string, flags map[string]string) (string, error) {
	file := flags["--from-file"]
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return "", err
	}
	s := secretManifest{Kind: "Secret", Data: map[string]string{file: base64.StdEncoding.EncodeToString(text)}}
	s.Metadata.Name = name
	out := must(yaml.Marshal(s))
	if flags["--dry-run"] == "client" {
		return string(out), nil
	}
	return "", c.applied(dir, out, map[string]string{"-f": "-"})
}

func (c *cluster) applied(dir string, stdin []byte, flags map[string]string) error {
	if flags["-k"] != "" {
		return c.apply(render(c.t, filepath.Join(dir, flags["-k"])))
	}
	if flags["-f"] != "-" {
		return c.applyJob(parse(c.t, flags["-f"], must(os.ReadFile(filepath.Join(dir, flags["-f"])))))
	}
	var s secretManifest
	if err := yaml.Unmarshal(stdin, &s); err != nil || s.Kind != "Secret" {
		return fmt.Errorf("apply %q: %w", stdin, cmp.Or(err, errors.New("no secret")))
	}
	must(0, os.MkdirAll(c.secret(s.Metadata.Name), 0o700))
	for file, text := range s.Data { // replaced as a whole, as the kubelet does
		partial := filepath.Join(c.dir, "partial")
		must(0, os.WriteFile(partial, must(base64.StdEncoding.DecodeString(text)), 0o640))
		must(0, os.Rename(partial, filepath.Join(c.secret(s.Metadata.Name), file)))
	}
	return nil
}

// applyJob runs a job to its end.
func (c *cluster) applyJob(all manifests) error {
	spec := all.one(c.t, "Job", "commons-restore").Spec.Template.Spec
	claim := all.one(c.t, "PersistentVolumeClaim", "data-commons-0").Metadata.Name
	must(0, os.MkdirAll(c.claim(claim), 0o700))
	args := make([]string, len(spec.Containers[0].Args))
	for i, arg := range spec.Containers[0].Args {
		args[i] = c.local(spec, -1, arg)
	}
	out, code := run(c.binary, args, c.variables(spec, nil, -1))
	if code == 0 {
		out = ""
	}
	c.jobs["commons-restore"] = out
	return nil
}

// call is a call of the stand-in for kubectl, from the process that a shell runs.
type call struct {
	Dir   string
	Args  []string
	Stdin []byte
}

type answer struct{ Out, Error string }

const socketVariable = "TEST_KUBECTL"

// TestMain makes the test's program the stand-in for kubectl if it is called by a shell of
// the test.
func TestMain(m *testing.M) {
	socket := os.Getenv(socketVariable)
	if socket == "" {
		os.Exit(m.Run())
	}
	c := call{Dir: must(os.Getwd()), Args: os.Args[1:]}
	if c.Args[len(c.Args)-1] == "-" {
		c.Stdin = must(io.ReadAll(os.Stdin)) // the end of it comes after the command before this one
	}
	conn := must(net.Dial("unix", socket))
	must(0, json.NewEncoder(conn).Encode(c))
	var a answer
	must(0, json.NewDecoder(conn).Decode(&a))
	fmt.Print(a.Out)
	if a.Error != "" {
		fmt.Fprintln(os.Stderr, a.Error)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve answers the stand-in for kubectl.
func (c *cluster) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		var called call
		must(0, json.NewDecoder(conn).Decode(&called))
		var a answer
		out, err := c.kubectl(called.Dir, called.Stdin, called.Args)
		a.Out = out
		if err != nil {
			a.Error = err.Error()
		}
		must(0, json.NewEncoder(conn).Encode(a))
		conn.Close()
	}
}

// shell runs commands of the manual in a directory.
func (c *cluster) shell(dir, script string) error {
	bin := filepath.Join(c.dir, "bin")
	socket := filepath.Join(c.dir, "socket")
	if _, err := os.Stat(bin); err != nil {
		must(0, os.MkdirAll(bin, 0o700))
		must(0, os.Symlink(must(os.Executable()), filepath.Join(bin, "kubectl")))
		must(0, os.Symlink(c.binary, filepath.Join(bin, "commons")))
		listener := must(net.Listen("unix", socket))
		c.t.Cleanup(func() { listener.Close() })
		go c.serve(listener)
	}
	cmd := exec.CommandContext(c.t.Context(), "bash", "-euxo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), socketVariable + "=" + socket, "HOME=" + c.dir}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, out.String())
	}
	return nil
}
