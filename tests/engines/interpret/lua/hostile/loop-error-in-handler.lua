-- expect: deadline
local function handler() error('again') end
function F() while true do xpcall(error, handler) end end
