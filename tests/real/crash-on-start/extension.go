// Package crashonstart is an extension that calls itself health_check, takes any configuration, validates, and ends
// the collector as soon as it is started. With it in the place of the real extension a collector passes every check
// that can be made beforehand, and fails on trial.
package crashonstart

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
)

// config keeps whatever is written below health_check, so that no key of it is unknown.
type config struct {
	Anything map[string]any `mapstructure:",remain"`
}

type crash struct{}

// NewFactory is what the builder's generated code calls.
func NewFactory() extension.Factory {
	return extension.NewFactory(
		component.MustNewType("health_check"),
		func() component.Config { return &config{} },
		func(context.Context, extension.Settings, component.Config) (extension.Extension, error) {
			return crash{}, nil
		},
		component.StabilityLevelDevelopment,
	)
}

func (crash) Start(context.Context, component.Host) error {
	panic("crash-on-start: this build ends when it is started")
}

func (crash) Shutdown(context.Context) error { return nil }
