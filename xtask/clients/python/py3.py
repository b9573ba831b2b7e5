"""What py3nvml reads, as JSON under the API's names."""

import json

from py3nvml import py3nvml as nv


def may(function, *arguments):
    try:
        return function(*arguments)
    except nv.NVMLError as error:
        if error.value != nv.NVML_ERROR_NOT_SUPPORTED:
            raise
        return None


def read(index):
    handle = nv.nvmlDeviceGetHandleByIndex(index)
    rates = may(nv.nvmlDeviceGetUtilizationRates, handle)
    return {
        "index": nv.nvmlDeviceGetIndex(handle),
        "uuid": nv.nvmlDeviceGetUUID(handle),
        "name": nv.nvmlDeviceGetName(handle),
        "serial": nv.nvmlDeviceGetSerial(handle),
        "minor": nv.nvmlDeviceGetMinorNumber(handle),
        "utilization_percent": rates and rates.gpu,
        "memory_utilization_percent": rates and rates.memory,
        "memory_total_bytes": nv.nvmlDeviceGetMemoryInfo(handle).total,
        "temperature_c": nv.nvmlDeviceGetTemperature(handle, nv.NVML_TEMPERATURE_GPU),
        "power_mw": nv.nvmlDeviceGetPowerUsage(handle),
        "power_limit_mw": nv.nvmlDeviceGetEnforcedPowerLimit(handle),
        "sm_clock_mhz": nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_SM),
        "memory_clock_mhz": nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_MEM),
        "performance_state": nv.nvmlDeviceGetPerformanceState(handle),
        "pids": [process.pid for process in nv.nvmlDeviceGetComputeRunningProcesses(handle)],
    }


nv.nvmlInit()
print(json.dumps({
    "driver": nv.nvmlSystemGetDriverVersion(),
    "gpus": [read(index) for index in range(nv.nvmlDeviceGetCount())],
}))
nv.nvmlShutdown()
