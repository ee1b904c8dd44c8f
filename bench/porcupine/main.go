// Drives Porcupine over the same files as the judge: register histories (console logs) and versioned test-and-sets.
//
//	porcupine LOG...        verdict, parse and check seconds of each file as one JSON line
//	porcupine -tas FILE...  lines "key called returned expected new", each a successful test-and-set of a version
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type input struct{ op, a, b int }  // 0 read, 1 write, 2 compare-and-set
type output struct {
	ok, unknown bool
	value       int
}

const none = -1 << 30

var register = porcupine.Model{
	Init: func() interface{} { return none },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		s, i, o := state.(int), in.(input), out.(output)
		switch i.op {
		case 0:
			return o.unknown || o.value == s, s
		case 1:
			return true, i.a
		}
		ok := o.unknown || (s == i.a) == o.ok
		if s == i.a {
			return ok, i.b
		}
		return ok, s
	},
}

var line = regexp.MustCompile(`jepsen\.util - (\d+)\s+:(invoke|ok|fail|info)\s+:(read|write|cas)\s*(.*)$`)

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return none
	}
	return n
}

func readLog(path string) []porcupine.Event {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	events, open, id := []porcupine.Event{}, map[int]int{}, 0
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		m := line.FindStringSubmatch(scanner.Text())
		if m == nil {
			continue
		}
		process := number(m[1])
		if m[2] == "invoke" {
			in := input{}
			switch m[3] {
			case "write":
				in = input{op: 1, a: number(m[4])}
			case "cas":
				pair := strings.Fields(strings.Trim(m[4], "[]"))
				in = input{op: 2, a: number(pair[0]), b: number(pair[1])}
			}
			open[process] = id
			events = append(events, porcupine.Event{ClientId: process, Kind: porcupine.CallEvent, Value: in, Id: id})
			id++
		} else if m[2] != "info" {
			out := output{ok: m[2] == "ok"}
			if m[3] == "read" {
				out.value = number(m[4])
			}
			events = append(events, porcupine.Event{ClientId: process, Kind: porcupine.ReturnEvent, Value: out, Id: open[process]})
			delete(open, process)
		}
	}
	for process, call := range open {
		events = append(events, porcupine.Event{ClientId: process, Kind: porcupine.ReturnEvent, Value: output{unknown: true}, Id: call})
	}
	return events
}

type tas struct{ key, expected, next int }

var versions = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[int][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(tas).key
			parts[k] = append(parts[k], op)
		}
		all := [][]porcupine.Operation{}
		for _, part := range parts {
			all = append(all, part)
		}
		return all
	},
	Init: func() interface{} { return 0 },
	Step: func(state, in, _ interface{}) (bool, interface{}) {
		i := in.(tas)
		return state.(int) == i.expected, i.next
	},
}

func readTas(path string) []porcupine.Operation {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	history := []porcupine.Operation{}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		f := strings.Fields(scanner.Text())
		n := make([]int, 5)
		for i := range n {
			n[i] = number(f[i])
		}
		history = append(history, porcupine.Operation{ClientId: len(history) % 16, Input: tas{n[0], n[3], n[4]}, Call: int64(n[1]), Return: int64(n[2])})
	}
	return history
}

func main() {
	limit, paths, versioned := 60*time.Second, os.Args[1:], false
	if len(paths) > 0 && paths[0] == "-tas" {
		versioned, paths = true, paths[1:]
	}
	for _, path := range paths {
		begin := time.Now()
		var verdict porcupine.CheckResult
		var parsed time.Time
		if versioned {
			history := readTas(path)
			parsed = time.Now()
			verdict = porcupine.CheckOperationsTimeout(versions, history, limit)
		} else {
			events := readLog(path)
			parsed = time.Now()
			verdict = porcupine.CheckEventsTimeout(register, events, limit)
		}
		answer, _ := json.Marshal(map[string]interface{}{
			"file": path, "verdict": verdict, "parse": parsed.Sub(begin).Seconds(), "check": time.Since(parsed).Seconds(),
		})
		fmt.Println(string(answer))
	}
}
