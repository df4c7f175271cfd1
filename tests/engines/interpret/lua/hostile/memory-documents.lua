-- expect: deadline memory
function F(a) local t = {} while true do t[#t + 1] = require('kube').getPodDependencies({spec = {volumes = {{secret = {secretName = 'x' .. #t}}}}}) end end
