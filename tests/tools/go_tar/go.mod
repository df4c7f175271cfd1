module fleethook.io/go-tar

go 1.21
