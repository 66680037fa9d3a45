module myriarch.invalid/crash-on-start

go 1.25.0

require (
	go.opentelemetry.io/collector/component v1.64.0
	go.opentelemetry.io/collector/extension v1.64.0
)
