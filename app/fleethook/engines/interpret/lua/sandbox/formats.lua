-- string.format with gopher-lua's behavior: Go's fmt.Sprintf, in which numbers and strings format themselves (gopher-lua
-- v1.1.1 value.go, Format).

local parts = ...

local texts, numbers = parts.texts, parts.numbers
local type, select, error, mathtype, tointeger = type, select, error, math.type, math.tointeger
local format, find, sub, rep, gsub, byte, match = string.format, string.find, string.sub, string.rep, string.gsub, string.byte, string.match
local concat, utf8, math, min, tonumber = table.concat, utf8, math, math.min, tonumber
local work = parts.limits.work
local to_text, shortest, parsed = texts.to_text, texts.shortest, numbers.parsed

local MAX_WIDTH = 1000000 -- Go's limit

local function length(s) return utf8.len(s) or #s end

local function padded(s, spec, zeros)
  local n = (spec.width or 0) - length(s)
  if n <= 0 then return s end
  work(n)
  if spec.minus then return s .. rep(" ", n) end
  if zeros and spec.zero then
    local sign, digits = match(s, "^([-+ ]?)(.*)$")
    return sign .. rep("0", n) .. digits
  end
  return rep(" ", n) .. s
end

local function signed(s, spec)
  if byte(s, 1) == 45 then return s end
  return spec.plus and "+" .. s or spec.space and " " .. s or s
end

-- int64(x) on amd64.
local function int64(x)
  if mathtype(x) == "integer" then return x end
  return tointeger(x < 0 and math.ceil(x) or math.floor(x)) or math.mininteger
end

local function digits_of(n, verb) -- of a number without its sign
  if verb == "d" then return format("%d", n) end
  if verb == "o" then return format("%o", n) end
  if verb ~= "b" then return format("%" .. verb, n) end
  local found = {}
  repeat
    found[#found + 1] = n & 1
    n = n >> 1
  until n == 0
  return (concat(found):reverse())
end

local PREFIXES = { x = "0x", X = "0X", o = "0", b = "0b" }

local function integer_text(n, verb, spec)
  local negative = n < 0
  local digits = n == math.mininteger and verb == "d" and "9223372036854775808" or digits_of(negative and -n or n, verb)
  if spec.precision then
    if spec.precision == 0 and n == 0 then return padded("", spec) end
    if #digits < spec.precision then
      work(spec.precision)
      digits = rep("0", spec.precision - #digits) .. digits
    end
  elseif spec.zero and not spec.minus and spec.width then
    local wide = spec.width - ((negative or spec.plus or spec.space) and 1 or 0)
    if #digits < wide then
      work(wide)
      digits = rep("0", wide - #digits) .. digits
    end
  end
  if spec.sharp and PREFIXES[verb] and not (verb == "o" and byte(digits) == 48) then digits = PREFIXES[verb] .. digits end
  return padded((negative and "-" or spec.plus and "+" or spec.space and " " or "") .. digits, spec)
end

local function float_text(x, verb, spec)
  if x ~= x then return padded(spec.plus and "+NaN" or spec.space and " NaN" or "NaN", spec) end
  if x - x ~= 0 then
    local s = x < 0 and "-Inf" or (spec.plus or not spec.space) and "+Inf" or " Inf"
    return padded(s, spec)
  end
  local s
  if (verb == "g" or verb == "G" or verb == "v") and not spec.precision then
    s = shortest(x)
    if verb == "G" then s = s:upper() end
  else
    local precision = min(spec.precision or 6, 1100)
    if precision <= 99 then
      s = format("%." .. precision .. (verb == "v" and "g" or verb), x)
    else -- C's string.format accepts two digits
      s = format("%.99" .. (verb == "v" and "g" or verb), x)
      if verb == "f" or verb == "F" then s = s .. rep("0", precision - 99) end
    end
  end
  return padded(signed(s, spec), spec, not spec.minus)
end

local function quoted(s)
  local escapes = { [7] = "\\a", [8] = "\\b", [9] = "\\t", [10] = "\\n", [11] = "\\v", [12] = "\\f", [13] = "\\r", [34] = '\\"', [92] = "\\\\" }
  return '"' .. gsub(s, '[%c"\\\127]', function(c) return escapes[byte(c)] or format("\\x%02x", byte(c)) end) .. '"'
end

local function hex(s, verb, spec)
  if spec.precision then s = sub(s, 1, spec.precision) end
  work(#s)
  local found = {}
  for i = 1, #s do found[i] = format(verb == "x" and "%02x" or "%02X", byte(s, i)) end
  if spec.sharp and #s > 0 then
    return (verb == "x" and "0x" or "0X") .. concat(found, spec.space and (verb == "x" and " 0x" or " 0X") or "")
  end
  return concat(found, spec.space and " " or "")
end

-- Formats a string with width and precision; zeros pad it as they pad a number.
local function text_within(s, spec)
  if spec.precision then
    local ends = utf8.len(s) and utf8.offset(s, spec.precision + 1)
    s = ends and sub(s, 1, ends - 1) or not utf8.len(s) and sub(s, 1, spec.precision) or s
  end
  local n = (spec.width or 0) - length(s)
  if spec.zero and n > 0 then
    work(n)
    return rep("0", n) .. s
  end
  return padded(s, spec)
end

local function string_text(s, verb, spec)
  work(#s)
  if verb == "s" or verb == "v" then return text_within(s, spec) end
  if verb == "q" then return text_within(quoted(s), spec) end
  if verb == "x" or verb == "X" then return padded(hex(s, verb, spec), spec) end
  return "%!" .. verb .. "(string=" .. text_within(s, spec) .. ")"
end

local function number_formatted(x, verb, spec)
  if verb == "s" or verb == "q" then return string_text(to_text(x), verb, spec) end
  if verb == "i" then verb = "d" end
  if find("dboxX", verb, 1, true) then return integer_text(int64(x), verb, spec) end
  if verb == "c" then
    local code = int64(x)
    return padded(utf8.char((code < 0 or code > 0x10FFFF or (code >= 0xD800 and code < 0xE000)) and 0xFFFD or code), spec)
  end
  if verb == "U" then return padded(format("U+%04X", int64(x)), spec) end
  if find("eEfFgG", verb, 1, true) then return float_text(x - 0.0, verb == "F" and "f" or verb, spec) end
  local i = mathtype(x) == "integer" and x or tointeger(x)
  if verb == "v" then
    if i then return integer_text(i, "d", spec) end
    return float_text(x, "v", spec)
  end
  if verb == "t" or i then return "%!" .. verb .. "(" .. (i and "int64" or "float64") .. "=" .. to_text(x) .. ")" end
  return "%!" .. verb .. "(float64=" .. to_text(x) .. ")"
end

local TYPES = {
  number = "lua.LNumber", string = "lua.LString", boolean = "lua.LBool", ["nil"] = "*lua.LNilType", table = "*lua.LTable",
  ["function"] = "*lua.LFunction",
}

local function formatted(v, verb, spec)
  local kind = type(v)
  if verb == "T" then return padded(TYPES[kind], spec) end
  if kind == "number" then return number_formatted(v, verb, spec) end
  if kind == "string" then
    if verb == "d" or verb == "i" then -- gopher-lua swaps the two cases
      if parsed(v) then return string_text(v, "s", spec) end
      return integer_text(0, "d", spec)
    end
    return string_text(v, verb, spec)
  end
  if kind == "boolean" and verb == "t" then return padded(to_text(v), spec) end
  if verb == "s" or verb == "v" or verb == "q" or verb == "x" or verb == "X" then
    return string_text(to_text(v), verb, spec)
  end
  if kind == "nil" then return "&{}" end
  spec.precision = nil
  return "%!" .. verb .. "(" .. TYPES[kind] .. "=" .. text_within(to_text(v), spec) .. ")"
end

local function count(s, what)
  local _, n = gsub(s, what, "")
  return n
end

local function sprintf(f, values, n)
  local pieces, position, used = {}, 1, 0
  while true do
    local from = find(f, "%", position, true)
    if not from then break end
    pieces[#pieces + 1] = sub(f, position, from - 1)
    local _, to, flags, width, dot, precision = find(f, "^([-+# 0]*)(%d*)(%.?)(%d*)", from + 1)
    local verb = match(f, "^" .. utf8.charpattern, to + 1)
    if verb == nil or verb == "" then
      pieces[#pieces + 1] = "%!(NOVERB)"
      position = #f + 1
      break
    end
    position = to + #verb + 1
    local spec = {
      minus = find(flags, "-", 1, true) ~= nil, plus = find(flags, "+", 1, true) ~= nil, sharp = find(flags, "#", 1, true) ~= nil,
      space = find(flags, " ", 1, true) ~= nil, zero = find(flags, "0", 1, true) ~= nil,
      width = tonumber(width), precision = dot ~= "" and (tonumber(precision) or 0) or nil,
    }
    if spec.minus then spec.zero = false end
    local bad_width = spec.width and spec.width > MAX_WIDTH and "%!(BADWIDTH)" or ""
    if bad_width ~= "" then spec.width = nil end
    if spec.precision and spec.precision > MAX_WIDTH then
      spec.precision = nil
      bad_width = bad_width .. "%!(BADPREC)"
    end
    if verb == "%" then
      pieces[#pieces + 1] = "%"
    elseif used >= n then
      pieces[#pieces + 1] = bad_width .. "%!" .. verb .. "(MISSING)"
    else
      used = used + 1
      pieces[#pieces + 1] = bad_width .. formatted(values[used], verb, spec)
    end
  end
  pieces[#pieces + 1] = sub(f, position)
  if used < n then
    local extra = {}
    for i = used + 1, n do
      extra[#extra + 1] = values[i] == nil and "*lua.LNilType=nil" or TYPES[type(values[i])] .. "=" .. to_text(values[i])
    end
    pieces[#pieces + 1] = "%!(EXTRA " .. concat(extra, ", ") .. ")"
  end
  return concat(pieces)
end

function parts.format(f, ...)
  if mathtype(f) then f = to_text(f) end
  if type(f) ~= "string" then numbers.bad(1, "format", "string", f, 3) end
  work(#f)
  local n = min(count(f, "%%") - count(f, "%%%%"), select("#", ...))
  return sprintf(f, { ... }, n < 0 and 0 or n)
end
