"""Random programs that change tables and then look at them by pairs, ipairs, # and the table library."""

from random import Random
from typing import Final

from expressions import Expressions


class Programs:
    """Draws programs; each method is one subject."""

    def __init__(self, random: Random) -> None:
        """Draw by this generator of random numbers."""
        self._random: Final = random
        self._expressions: Final = Expressions(random)

    def _some(self, low: int, high: int) -> range:
        return range(self._random.randint(low, high))

    def _scalar(self) -> str:
        expressions = self._expressions
        return expressions.one(expressions.number(), expressions.text(), "true", expressions.arithmetic(1))

    def _key(self) -> str:
        return self._expressions.one(
            "1", "2", "3", "4", "#t + 1", "#t", "'a'", "'b'", "'z'", "n", "n + 1", "0", "-1", "1.5", "7"
        )

    def constructor(self) -> str:
        """Return a table with elements and names."""
        one = self._expressions.one
        items = [
            self._scalar() if self._random.random() < 0.6 else f"{one('a', 'b', 'z', 'y', 'k')} = {self._scalar()}"
            for _ in self._some(0, 6)
        ]
        return "{" + ", ".join(items) + "}"

    def pairs(self) -> str:
        """Fill a table, take from it, go through it."""
        lines = [f"local t, n = {self.constructor()}, 2"]
        for _ in self._some(2, 8):
            value = "nil" if self._random.random() < 0.3 else self._scalar()
            lines.append(f"t[{self._key()}] = {value}")
        lines.append("for k, v in pairs(t) do out(k, v) end out(#t)")
        return "\n".join(lines)

    def ipairs(self) -> str:
        """Build a list, change it, go through it by ipairs and by index."""
        lines = ["local t, sum = {}, 0"]
        lines += [f"t[#t + 1] = {self._scalar()}" for _ in self._some(0, 6)]
        if self._random.random() < 0.5:
            lines.append(f"if #t > 2 then t[{self._expressions.one('2', '#t', '1')}] = nil end")
        step = self._expressions.one("1", "2", "-1", "0.5", "a")
        lines += [
            "for i, v in ipairs(t) do out(i, v) sum = sum + i end out(sum, #t)",
            f"for i = {self._expressions.one('1', '#t', '0', '0.5')}, {self._expressions.one('#t', '3', '1', '2.5')}, {step} do out(i) end",
        ]
        return "\n".join(lines)

    def length(self) -> str:
        """Grow and shrink a list and look at its length."""
        one = self._expressions.one
        lines = [
            f"local t = {one('{}', '{1, 2, 3}', '{1, nil, 3}', '{nil, nil, 3}', '{n = 1}', '{1, nil, 3, nil}', self.constructor())}"
        ]
        steps = (
            "t[#t + 1] = 'x'", "t[#t] = nil", "t[2] = nil", "t[1] = nil", "t[5] = 'y'", "t[10] = 1", "t.name = 1", "table.insert(t, 'i')",
            "t[3] = 'z'", "t[4] = nil", "t[0] = 1",
        )  # fmt: skip
        lines += [f"{one(*steps)} out(#t)" for _ in self._some(1, 7)]
        return "\n".join(lines)

    def library(self) -> str:
        """Call functions of ``table``."""
        one, scalar = self._expressions.one, self._scalar
        values = [one("1", "2", "3", "'a'", "'b'", "0.5", "10/4", "2*3") for _ in self._some(0, 6)]
        lines = [f"local t = {{{', '.join(values)}}}"]
        for _ in self._some(1, 6):
            separator = one("','", "''", "' '", "nil")
            position = one("1", "2", "3", "#t", "#t + 1", "#t + 2", "0", "-1", "2.7", "7")
            lines.append(
                one(
                    f"table.insert(t, {scalar()})",
                    f"table.insert(t, {position}, {scalar()})",
                    f"out(table.remove(t, {position}))",
                    "out(table.remove(t))",
                    f"out(table.concat(t, {separator}))",
                    f"out(table.concat(t, '-', {one('1', '2', '0', '5', '-1')}))",
                    f"out(table.concat(t, '-', {one('1', '2', '0')}, {one('2', '#t', '9', '0')}))",
                    "out(table.getn(t), table.maxn(t))",
                    "out(unpack(t))",
                )
            )
        lines.append("out(#t) for i = 1, #t do out(t[i]) end")
        return "\n".join(lines)

    def sorting(self) -> str:
        """Sort a list, also by functions that take many elements for equal."""
        one = self._expressions.one
        texts = self._random.random() < 0.4
        values = [
            one("'b'", "'a'", "'10'", "'9'", "'Z'", "''") if texts else self._expressions.number()
            for _ in self._some(0, 11)
        ]
        values = [value for value in values if "0/0" not in value]
        by = one(
            "", ", function(x, y) return x > y end", ", function(x, y) return tostring(x) < tostring(y) end",
            ", function(x, y) return #tostring(x) < #tostring(y) end", ", function(x, y) return false end",
        )  # fmt: skip
        return f"local t = {{{', '.join(values)}}}\ntable.sort(t{by})\nfor i = 1, #t do out(t[i]) end"

    def texts(self) -> str:
        """Take a text apart and put it together again."""
        one, text = self._expressions.one, self._expressions.text
        separator = one("','", "' '", "'='")
        pattern = one("'[^,]+'", "'%w+'", "'(%w)(%w)'", "'%d'", "'.'", "'%a*'", "'()%s'")
        return "\n".join(
            (
                f"local s, parts = tostring({text()}) .. {separator} .. tostring({text()}), {{}}",
                f"for x, y in string.gmatch(s, {pattern}) do parts[#parts + 1] = x out(x, y) end",
                "out(table.concat(parts, '|'), #parts, #s)",
                f"for i = 1, #s, {one('1', '2', '3')} do out(s:sub(i, i)) end",
            )
        )

    def replicas(self) -> str:
        """Compute as interpreters do: sums, shares, percentages, minima over statuses."""
        one, number = self._expressions.one, self._expressions.one
        statuses = ", ".join(
            f"{{replicas = {number('1', '2', '3', '0', '10')}, ready = {number('0', '1', '2', '0.5', 'nil')}, w = {one('1', '0.3', '2/3')}}}"
            for _ in self._some(0, 5)
        )
        form = one("'%d of %d'", "'%.1f of %s'", "'%s/%s'")
        return "\n".join(
            (
                f"local items, total, ready, least = {{{statuses}}}, 0, 0, math.huge",
                "for i = 1, #items do",
                "  local item = items[i]",
                "  total = total + item.replicas * item.w",
                "  ready = ready + (item.ready or 0)",
                "  least = math.min(least, item.replicas)",
                "end",
                "out(total, ready, least, ready .. '/' .. total)",
                "out(ready / total, math.floor(ready / total * 100) .. '%', total % 7, -total % 7)",
                f"out(string.format({form}, ready, total))",
                "out(ready == total, ready >= total * 0.5, math.ceil(total / 3), math.max(1, total))",
            )
        )
