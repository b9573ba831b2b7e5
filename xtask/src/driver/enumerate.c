/* Counts devices with CUDA and with NVML, as a program that knows neither mirage nor each other's answers. One line per
 * device; ends with 1 when the two disagree. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *cuda, *nvml;

static void *need(void *library, const char *name)
{
	void *found = dlsym(library, name);
	if (!found) {
		fprintf(stderr, "%s is missing\n", name);
		exit(1);
	}
	return found;
}

static void check(const char *what, int code)
{
	if (code) {
		fprintf(stderr, "%s answers %d\n", what, code);
		exit(1);
	}
}

#define CUDA(name, types, args) check(#name, ((int (*) types)need(cuda, #name)) args)
#define NVML(name, types, args) check(#name, ((int (*) types)need(nvml, #name)) args)

int main(void)
{
	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!cuda || !nvml) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	int cuda_count = -1, version = 0, nvml_version = 0;
	unsigned nvml_count = 0;
	CUDA(cuInit, (unsigned), (0));
	CUDA(cuDriverGetVersion, (int *), (&version));
	CUDA(cuDeviceGetCount, (int *), (&cuda_count));
	NVML(nvmlInit_v2, (void), ());
	NVML(nvmlSystemGetCudaDriverVersion, (int *), (&nvml_version));
	NVML(nvmlDeviceGetCount_v2, (unsigned *), (&nvml_count));
	if (cuda_count != (int)nvml_count || version != nvml_version) {
		fprintf(stderr, "CUDA: %d devices, %d; NVML: %u devices, %d\n", cuda_count, version, nvml_count, nvml_version);
		return 1;
	}
	for (int i = 0; i < cuda_count; i++) {
		char name[96], nvml_name[96], bus[16], uuid_text[96];
		unsigned char uuid[16];
		size_t memory = 0;
		int device = -1;
		void *handle = NULL;
		CUDA(cuDeviceGet, (int *, int), (&device, i));
		CUDA(cuDeviceGetName, (char *, int, int), (name, sizeof name, device));
		CUDA(cuDeviceGetUuid_v2, (unsigned char *, int), (uuid, device));
		CUDA(cuDeviceGetPCIBusId, (char *, int, int), (bus, sizeof bus, device));
		CUDA(cuDeviceTotalMem_v2, (size_t *, int), (&memory, device));
		NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char *, void **), (bus, &handle));
		NVML(nvmlDeviceGetName, (void *, char *, unsigned), (handle, nvml_name, sizeof nvml_name));
		NVML(nvmlDeviceGetUUID, (void *, char *, unsigned), (handle, uuid_text, sizeof uuid_text));
		char same[41] = "GPU-", *at = same + 4;
		for (int b = 0; b < 16; b++)
			at += sprintf(at, b == 4 || b == 6 || b == 8 || b == 10 ? "-%02x" : "%02x", uuid[b]);
		if (strcmp(name, nvml_name) || strcmp(same, uuid_text)) {
			fprintf(stderr, "CUDA: %s %s; NVML: %s %s\n", name, same, nvml_name, uuid_text);
			return 1;
		}
		printf("%d|%s|%s|%s|%zu\n", i, name, same, bus, memory);
	}
	return 0;
}
