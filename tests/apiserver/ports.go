package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// freePorts picks below the range from which systems hand out ports by
// themselves: a port stays ours while its server is stopped, since no other
// program gets it by chance.
func freePorts(n int) ([]int, error) {
	const low, high, attempts = 15000, 32000, 1000
	var ports []int
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for range attempts {
		port := low + rand.IntN(high-low)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held = append(held, l)
		ports = append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free ports on 127.0.0.1 between 15000 and 32000")
}
