// What a container runtime does with a CDI specification, done by CDI's own library: read and validate every file of a directory,
// and put devices into a container's configuration.
//
//	cdi DIRECTORY CONFIG DEVICE...
//
// reads an OCI configuration, adds the devices and prints it. Without devices it prints the names there are.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: cdi DIRECTORY CONFIG DEVICE...")
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(args[0]), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	for path, errs := range cache.GetErrors() {
		return fmt.Errorf("%s: %v", path, errs)
	}
	for _, vendor := range cache.ListVendors() {
		for _, spec := range cache.GetVendorSpecs(vendor) {
			lowest, err := cdi.MinimumRequiredVersion(spec.Spec)
			if err != nil {
				return err
			}
			if spec.Version != lowest {
				return fmt.Errorf("%s: says version %s, and %s would do", spec.GetPath(), spec.Version, lowest)
			}
		}
	}
	devices := args[2:]
	if len(devices) == 0 {
		for _, name := range cache.ListDevices() {
			fmt.Println(name)
		}
		return nil
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	config := &oci.Spec{}
	if err := json.Unmarshal(text, config); err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	if unresolved, err := cache.InjectDevices(config, devices...); err != nil {
		return fmt.Errorf("%v: %w", unresolved, err)
	}
	return json.NewEncoder(os.Stdout).Encode(config)
}
