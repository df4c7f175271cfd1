-- expect: deadline
local kube = require('kube')
function F() while true do kube.resourceAdd('1', '1Gi') end end
