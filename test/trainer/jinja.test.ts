/**
 * Chat templates are evaluated as Jinja2 3.1 does in Python. What is expected is what transformers 5.23 renders
 * (`render_jinja_template`) of the same template and messages.
 */
import { describe, expect, it } from 'vitest';
import { chatTemplate } from '../../trainer/model/tokens/template.ts';
import { openTokenizer, wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';

const tokenizer = openTokenizer(wordTokenizer(['a'], ['<end>'], { eos: '<end>' }));
const MESSAGES = [
  { role: 'user', content: '  Hello World \n' },
  { role: 'assistant', content: null, tool_calls: [{ function: { name: 'f', arguments: {} } }] },
  { role: 'user', content: '😀é' },
];
const render = (source: string) => chatTemplate(source, tokenizer).render(MESSAGES);

describe('a chat template', () => {
  it.each([
    // Qwen3 and SmolLM3 strip line breaks of an answer, and nothing else.
    ["{{ '  x\\n '.lstrip('\\n') }}", '  x\n '],
    ["{{ '\\nx\\n '.rstrip(' ') }}", '\nx\n'],
    ["{{ 'xxaxx'.strip('x') }}", 'a'],
    ["{{ 'xxaxx' | trim('x') }}", 'a'],
    ["{{ ' \\x1f\ufeffa\ufeff' | trim }}", '\ufeffa\ufeff'],
    ['{{ messages[0].content | trim | capitalize }}', 'Hello world'],
    ["{{ 'hello wORLD-foo it\\'s' | title }}", "Hello World-Foo It's"],
    ["{{ 'hello wORLD-foo it\\'s'.title() }}", "Hello World-Foo It'S"],
    ['{{ messages[2].content | length }}', '2'],
    ['{{ messages[1].content }}', 'None'],
    ['{{ true }}{{ 1 == 2 }}', 'TrueFalse'],
    ["{{ [1, 'a', none, {'k': \"it's\"}] }}", "[1, 'a', None, {'k': \"it's\"}]"],
    ["{{ ['é', 'c\\n'] | string }}", "['é', 'c\\n']"],
    ["{{ [none, 1, true] | join('-') }}", 'None-1-True'],
    ["{{ 'a' ~ none ~ 1 }}", 'aNone1'],
    // Mistral asks whether a message is the last of the user's, by value.
    ["{{ [1, {'a': 2}] == [1, {'a': 2}] }}{{ {'a': 1} in [{'a': 1}] }}", 'TrueTrue'],
    ["{{ '1' == 1 }}{{ missing == none }}{{ true == 1 }}", 'FalseFalseTrue'],
    ['{{ -7 % 3 }}', '2'],
    ["{{ -1.5 | int }}{{ '1.5' | int }}{{ '12abc' | int }}", '-110'],
    ['{{ messages[0] is iterable }}', 'True'],
    ["{% for k, v in {'items': 1}.items() %}{{ k }}{{ v }}{% endfor %}", 'items1'],
    ["{% set x = 'a' %}{% macro m() %}b{% endmacro %}{{ m() }}", 'b'],
  ])('%s is shown as in Python', (source, expected) => {
    expect(render(source)).toBe(expected);
  });

  it.each([
    ['{{ missing.field }}', /'missing' is undefined/],
    ['{{ messages[0].missing.field }}', /'missing' is undefined/],
    ["{{ 'a' + 1 }}", /can only concatenate/],
    ["{{ 'a' + messages[1].content }}", /can only concatenate/],
    ['{{ 5 % 0 }}', /modulo by zero/],
  ])('%s is refused, as Python does', (source, why) => {
    expect(() => render(source)).toThrow(why);
  });
});
