-- expect: script
function F() return debug.getregistry() end
