-- expect: memory
function F() local t = {} for i = 1, 1e5 do t[i] = ('x'):rep(1000) .. i end return table.concat(t) end
