-- expect: script
function F() return __fleethook_t(_G) end
