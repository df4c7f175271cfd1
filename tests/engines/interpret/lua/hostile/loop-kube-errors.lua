-- expect: deadline
local kube = require('kube')
function F() while true do pcall(kube.resourceAdd, 'x') end end
