module myriarch.invalid/opamp-server

go 1.26

require github.com/open-telemetry/opamp-go v0.23.0
