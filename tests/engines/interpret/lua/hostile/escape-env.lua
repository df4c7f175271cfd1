-- expect: script
local outer = _ENV
function F() local _ENV = {} return x.y end
