package resource_test

import (
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }
