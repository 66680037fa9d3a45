// Command opamp-server is the other end of the supervisor's connection: it welcomes every agent, answers each message,
// and prints what it was told, one JSON document a line. Its only argument is the address to listen on.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"

	"github.com/open-telemetry/opamp-go/protobufs"
	"github.com/open-telemetry/opamp-go/server"
	"github.com/open-telemetry/opamp-go/server/types"
	"google.golang.org/protobuf/encoding/protojson"
)

// everything says that this server accepts all that an agent can report.
const everything = uint64(protobufs.ServerCapabilities_ServerCapabilities_AcceptsStatus |
	protobufs.ServerCapabilities_ServerCapabilities_OffersRemoteConfig |
	protobufs.ServerCapabilities_ServerCapabilities_AcceptsEffectiveConfig |
	protobufs.ServerCapabilities_ServerCapabilities_OffersPackages |
	protobufs.ServerCapabilities_ServerCapabilities_AcceptsPackagesStatus)

// journal writes whole lines, whichever connection they come from.
type journal struct{ sync.Mutex }

func (j *journal) record(message *protobufs.AgentToServer) {
	line, err := protojson.Marshal(message)
	if err != nil {
		log.Printf("a message from %x cannot be written as JSON: %v", message.InstanceUid, err)
		return
	}
	j.Lock()
	defer j.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		log.Fatalf("standard output: %v", err)
	}
}

// quiet forwards errors of the library only.
type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Errorf(_ context.Context, format string, values ...any) {
	log.Printf(format, values...)
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: opamp-server ADDRESS, for example 127.0.0.1:4320")
	}
	seen := &journal{}
	callbacks := types.ConnectionCallbacks{
		OnMessage: func(_ context.Context, _ types.Connection, m *protobufs.AgentToServer) *protobufs.ServerToAgent {
			seen.record(m)
			return &protobufs.ServerToAgent{InstanceUid: m.InstanceUid, Capabilities: everything}
		},
	}
	callbacks.SetDefaults()
	opamp := server.New(quiet{})
	settings := server.StartSettings{ListenEndpoint: os.Args[1]}
	settings.Callbacks.OnConnecting = func(*http.Request) types.ConnectionResponse {
		return types.ConnectionResponse{Accept: true, ConnectionCallbacks: callbacks}
	}
	if err := opamp.Start(settings); err != nil {
		log.Fatalf("cannot listen on %s: %v", os.Args[1], err)
	}
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	<-stop.Done()
	if err := opamp.Stop(context.Background()); err != nil {
		log.Fatalf("stopping: %v", err)
	}
}
