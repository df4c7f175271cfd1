-- expect: script
function F() return require('kube').resourceAdd.__globals__ end
