-- expect: deadline
function F() while true do require('fleet') end end
