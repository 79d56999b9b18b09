// go-zookeeper's lock, controlled by the commands described in src/peer.rs.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

func main() {
	lines := make(chan string)
	go readLines(lines)
	server, who := os.Args[1], os.Args[2]
	conn, _, err := zk.Connect([]string{server}, 20*time.Second)
	if err == nil {
		// The answer to this request shows that the connection is established.
		_, _, err = conn.Exists("/")
	}
	answer(err)
	peer := peer{conn: conn, who: who}
	for line := range lines {
		answer(peer.obey(strings.Fields(line)))
	}
}

// When standard input ends, the process exits, even if it is waiting for the lock.
func readLines(lines chan<- string) {
	scanner := bufio.NewScanner(os.Stdin)
	for scanner.Scan() {
		lines <- scanner.Text()
	}
	os.Exit(0)
}

func answer(err error) {
	if err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
	} else {
		fmt.Println("ok")
	}
}

type peer struct {
	conn  *zk.Conn
	who   string
	taken *zk.Lock
}

func (p *peer) obey(words []string) error {
	switch words[0] {
	case "lock":
		return p.lock(words[1])
	case "unlock":
		return p.taken.Unlock()
	case "run":
		times, err := strconv.Atoi(words[1])
		folder, path := words[2], words[4]
		for ; err == nil && times > 0; times-- {
			err = p.turn(folder, path)
		}
		return err
	default:
		return errors.New("not a command: " + words[0])
	}
}

func (p *peer) lock(path string) error {
	p.taken = zk.NewLock(p.conn, path, zk.WorldACL(zk.PermAll))
	return p.taken.Lock()
}

func (p *peer) turn(folder, path string) error {
	if err := p.lock(path); err != nil {
		return err
	}
	if err := visit(folder, p.who); err != nil {
		return err
	}
	return p.taken.Unlock()
}

// Visits the monitor, by the rules in src/monitor.rs.
func visit(folder, who string) error {
	own := filepath.Join(folder, "in", "lock."+who+".0")
	file, err := os.OpenFile(own, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	file.Close()
	entries, err := os.ReadDir(filepath.Join(folder, "in"))
	if err != nil {
		return err
	}
	var seen []string
	for _, entry := range entries {
		seen = append(seen, entry.Name())
	}
	log, err := os.OpenFile(filepath.Join(folder, "log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err = fmt.Fprintf(log, "%s lock %s\n", who, strings.Join(seen, ",")); err != nil {
		return err
	}
	counter := filepath.Join(folder, "counter")
	text, err := os.ReadFile(counter)
	if err != nil {
		return err
	}
	// The file is empty only if another holder is writing it. This counts as zero.
	count, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	time.Sleep(time.Millisecond)
	if err = os.WriteFile(counter, []byte(strconv.Itoa(count+1)), 0o644); err != nil {
		return err
	}
	return os.Remove(own)
}
