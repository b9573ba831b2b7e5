// What go-nvml reads, as JSON: one object with the node's versions and a list of GPUs under the API's names.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type gpu struct {
	Index             int      `json:"index"`
	UUID              string   `json:"uuid"`
	Name              string   `json:"name"`
	Serial            string   `json:"serial"`
	PciBusID          string   `json:"pci_bus_id"`
	Minor             int      `json:"minor"`
	Utilization       *uint32  `json:"utilization_percent"`
	MemoryUtilization *uint32  `json:"memory_utilization_percent"`
	MemoryTotal       uint64   `json:"memory_total_bytes"`
	MemoryReserved    uint64   `json:"memory_reserved_bytes"`
	MemoryUsed        uint64   `json:"memory_used_bytes"`
	Temperature       uint32   `json:"temperature_c"`
	Power             uint32   `json:"power_mw"`
	PowerLimit        uint32   `json:"power_limit_mw"`
	Energy            *uint64  `json:"energy_mj"`
	SmClock           uint32   `json:"sm_clock_mhz"`
	MemoryClock       uint32   `json:"memory_clock_mhz"`
	PerformanceState  int32    `json:"performance_state"`
	Pids              []uint32 `json:"pids"`
	MigDevices        []mig    `json:"mig_devices"`
}

type mig struct {
	UUID            string `json:"uuid"`
	GpuInstance     int    `json:"gpu_instance"`
	ComputeInstance int    `json:"compute_instance"`
	MemoryTotal     uint64 `json:"memory_total_bytes"`
	MemoryUsed      uint64 `json:"memory_used_bytes"`
}

// must ends the program on any refusal, in the library's own words.
func must[T any](value T, ret nvml.Return) T {
	if ret != nvml.SUCCESS {
		fmt.Fprintf(os.Stderr, "go-nvml: %s (%d)\n", nvml.ErrorString(ret), ret)
		os.Exit(1)
	}
	return value
}

// may takes "not supported" for an answer.
func may[T any](value T, ret nvml.Return) *T {
	if ret == nvml.ERROR_NOT_SUPPORTED {
		return nil
	}
	value = must(value, ret)
	return &value
}

func read(index int) gpu {
	device := must(nvml.DeviceGetHandleByIndex(index))
	pci := must(device.GetPciInfo())
	memory := must(device.GetMemoryInfo_v2())
	found := gpu{
		Index:            must(device.GetIndex()),
		UUID:             must(device.GetUUID()),
		Name:             must(device.GetName()),
		Serial:           must(device.GetSerial()),
		PciBusID:         text(pci.BusId[:]),
		Minor:            must(device.GetMinorNumber()),
		MemoryTotal:      memory.Total,
		MemoryReserved:   memory.Reserved,
		MemoryUsed:       memory.Used,
		Temperature:      must(device.GetTemperature(nvml.TEMPERATURE_GPU)),
		Power:            must(device.GetPowerUsage()),
		PowerLimit:       must(device.GetEnforcedPowerLimit()),
		Energy:           may(device.GetTotalEnergyConsumption()),
		SmClock:          must(device.GetClockInfo(nvml.CLOCK_SM)),
		MemoryClock:      must(device.GetClockInfo(nvml.CLOCK_MEM)),
		PerformanceState: int32(must(device.GetPerformanceState())),
		Pids:             []uint32{},
		MigDevices:       []mig{},
	}
	if rates := may(device.GetUtilizationRates()); rates != nil {
		found.Utilization, found.MemoryUtilization = &rates.Gpu, &rates.Memory
	}
	for _, process := range must(device.GetComputeRunningProcesses()) {
		found.Pids = append(found.Pids, process.Pid)
	}
	slots, ret := device.GetMaxMigDeviceCount()
	for slot := 0; ret == nvml.SUCCESS && slot < slots; slot++ {
		handle, ret := device.GetMigDeviceHandleByIndex(slot)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		part := must(handle, ret)
		memory := must(part.GetMemoryInfo())
		found.MigDevices = append(found.MigDevices, mig{
			UUID:            must(part.GetUUID()),
			GpuInstance:     must(part.GetGpuInstanceId()),
			ComputeInstance: must(part.GetComputeInstanceId()),
			MemoryTotal:     memory.Total,
			MemoryUsed:      memory.Used,
		})
	}
	return found
}

func text[T int8 | uint8](bytes []T) string {
	letters := []byte{}
	for _, letter := range bytes {
		if letter == 0 {
			break
		}
		letters = append(letters, byte(letter))
	}
	return string(letters)
}

func main() {
	must(0, nvml.Init())
	gpus := []gpu{}
	for index := 0; index < must(nvml.DeviceGetCount()); index++ {
		gpus = append(gpus, read(index))
	}
	found := map[string]any{
		"driver": must(nvml.SystemGetDriverVersion()),
		"cuda":   must(nvml.SystemGetCudaDriverVersion_v2()),
		"gpus":   gpus,
	}
	must(0, nvml.Shutdown())
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
