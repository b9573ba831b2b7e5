/* What a program in a container learns from NVML. One line "devices N", then a line per device: index, UUID, minor number,
 * utilization, memory used in MiB, and a line per MIG device below it. Ends with 1 and a reason when NVML cannot be used. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *device;

static void *nvml;

static void *need(const char *name)
{
	void *found = dlsym(nvml, name);
	if (!found) {
		fprintf(stderr, "%s is missing\n", name);
		exit(1);
	}
	return found;
}

#define CALL(name, types, args) (((int(*) types)need(#name))args)
#define MUST(name, types, args)                                       \
	do {                                                          \
		int code = CALL(name, types, args);                   \
		if (code) {                                           \
			fprintf(stderr, #name " answers %d\n", code); \
			exit(1);                                      \
		}                                                     \
	} while (0)

int main(void)
{
	struct { unsigned gpu, memory; } use;
	struct { unsigned long long total, free, used; } memory;
	char uuid[96];
	unsigned count, minor, most;

	nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!nvml) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	MUST(nvmlInit_v2, (void), ());
	MUST(nvmlDeviceGetCount_v2, (unsigned *), (&count));
	printf("devices %u\n", count);
	for (unsigned i = 0; i < count; i++) {
		device gpu, mig;
		int lost = CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned, device *), (i, &gpu));
		if (lost) {
			printf("device %u lost %d\n", i, lost);
			continue;
		}
		MUST(nvmlDeviceGetUUID, (device, char *, unsigned), (gpu, uuid, sizeof uuid));
		MUST(nvmlDeviceGetMinorNumber, (device, unsigned *), (gpu, &minor));
		MUST(nvmlDeviceGetMemoryInfo, (device, void *), (gpu, &memory));
		/* A GPU in MIG mode has no utilization of its own. */
		if (CALL(nvmlDeviceGetUtilizationRates, (device, void *), (gpu, &use)))
			use.gpu = 0;
		printf("device %u %s minor %u utilization %u memory %llu\n", i, uuid, minor, use.gpu, memory.used >> 20);
		if (CALL(nvmlDeviceGetMaxMigDeviceCount, (device, unsigned *), (gpu, &most)))
			most = 0;
		for (unsigned j = 0; j < most; j++) {
			if (CALL(nvmlDeviceGetMigDeviceHandleByIndex, (device, unsigned, device *), (gpu, j, &mig)))
				continue;
			MUST(nvmlDeviceGetUUID, (device, char *, unsigned), (mig, uuid, sizeof uuid));
			printf("mig %u/%u %s\n", i, j, uuid);
		}
	}
	MUST(nvmlShutdown, (void), ());
	return 0;
}
