module mirage.example/clients

go 1.20

require github.com/NVIDIA/go-nvml v0.13.3-0
