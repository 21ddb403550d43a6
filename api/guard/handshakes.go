package guard

import (
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// The bounds of TLS handshakes. A handshake costs the server more than the client.
const (
	// DefaultHandshakes is the number of handshakes that one address may begin per second,
	// and handshakeSeconds the size of a burst, in seconds of the budget.
	DefaultHandshakes = 50
	handshakeSeconds  = 10
	// handshakeTurn is how long a handshake may wait for its turn.
	handshakeTurn = 5 * time.Second

	rejectedHandshakes = "handshakes" // in the metrics
)

// errHandshakes ends a handshake over a bound. The client sees a closed connection.
var errHandshakes = errors.New("too many TLS handshakes")

// Certificate returns the certificate for a handshake.
type Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// TLS returns the configuration of a server, for Conn.Secure. Handshakes are bounded before they
// compute: those of one address by a budget, and all together by the number that run at once.
// An exempt address has no budget.
func TLS(certificate Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if c, is := hello.Conn.(*Conn); is && !c.exempt {
				if c.guard.shakes.Wait(c.client) > 0 {
					return nil, c.rejectHandshake()
				}
				c.guard.shakes.Use(c.client, 1)
			}
			return nil, takeTurn(hello)
		},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			// The client may have been asked for another key share, which ended its turn.
			if err := takeTurn(hello); err != nil {
				return nil, err
			}
			return certificate(hello)
		},
	}
}

// Secure returns the connection under TLS.
func (c *Conn) Secure(config *tls.Config) net.Conn {
	c.secure = tls.Server(c, config)
	return c.secure
}

// takeTurn waits until the handshake may compute. The turn ends with the next read of the
// connection, or when it closes.
func takeTurn(hello *tls.ClientHelloInfo) error {
	c, is := hello.Conn.(*Conn)
	if !is || c.turn.Load() != nil {
		return nil
	}
	done, ok := c.guard.handshakes.take(hello.Context(), handshakeTurn, c.client)
	if !ok {
		return c.rejectHandshake()
	}
	c.turn.Store(&done)
	return nil
}

func (c *Conn) rejectHandshake() error {
	c.guard.metrics.rejected.WithLabelValues(rejectedHandshakes).Inc()
	c.kill()
	return errHandshakes
}

// endTurn ends the turn of the connection's handshake, if it has one.
func (c *Conn) endTurn() {
	if c.turn.Load() == nil {
		return
	}
	if done := c.turn.Swap(nil); done != nil {
		(*done)()
	}
}

// Of returns the guarded connection below a connection of the server.
func Of(conn net.Conn) (c *Conn, is bool) {
	if secure, under := conn.(*tls.Conn); under {
		conn = secure.NetConn()
	}
	c, is = conn.(*Conn)
	return c, is
}
