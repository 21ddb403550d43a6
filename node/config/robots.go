package config

import (
	"fmt"
	"os"

	"github.com/commons-cluster/commons/api"
)

// maxRobots is how long a robots.txt may be, in bytes.
const maxRobots = 64 << 10

// RobotsText is what /robots.txt says.
func (c Config) RobotsText() (string, error) {
	switch c.Robots {
	case "", "allow":
		return api.RobotsAllow, nil
	case "deny":
		return api.RobotsDeny, nil
	}
	text, err := os.ReadFile(c.Robots)
	if err != nil {
		return "", err
	}
	if len(text) > maxRobots {
		return "", fmt.Errorf("%s has %d bytes", c.Robots, len(text))
	}
	return string(text), nil
}
