/**
 * The special tokens and the chat template of a new model: turns between `<|im_start|>` and `<|im_end|>`, tools as JSON.
 * A line break stands behind the end token of every turn, as in the templates of Qwen: turns that are written one by one add up to the whole
 * conversation, and a longer conversation begins with the tokens of a shorter one.
 */

/** Fills up, and ends a document; the two that enclose a turn. */
export const CHATML_SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const;

export const CHATML_ROLES = { eos: '<|im_end|>', pad: '<|endoftext|>' } as const;

/**
 * Contents may be text, a list of parts (`{type: "text", text}`, or `content` for `text`, and `{type: "tool_call", name,
 * arguments}`), or any JSON; calls may also stand in `tool_calls` as `{function: {name, arguments}}`, the arguments as a value or
 * as JSON text, which is repeated as it was written.
 */
export const CHATML_TEMPLATE = [
  // Text of a content; an image or a call has none.
  '{%- macro text(content) -%}',
  '{%- if content is string -%}{{- content -}}',
  '{%- elif content is mapping -%}{{- content | tojson -}}',
  "{%- elif content -%}{%- for part in content -%}{{- part if part is string else (part.text or part.content or '') -}}{%- endfor -%}",
  '{%- endif -%}',
  '{%- endmacro -%}',
  '{%- macro call(name, arguments) -%}',
  `{{- '\\n<tool_call>\\n{"name": ' ~ (name | tojson) ~ ', "arguments": ' -}}`,
  '{{- arguments if arguments is string and arguments else (arguments or {}) | tojson -}}',
  "{{- '}\\n</tool_call>' -}}",
  '{%- endmacro -%}',
  '{%- macro calls(message) -%}',
  '{%- if message.content and message.content is not string and message.content is not mapping -%}',
  "{%- for part in message.content -%}{%- if part is mapping and part.type == 'tool_call' -%}{{- call(part.name, part.arguments) -}}{%- endif -%}{%- endfor -%}",
  '{%- endif -%}',
  '{%- for one in (message.tool_calls or []) -%}',
  '{%- set function = one.function or one -%}{{- call(function.name, function.arguments) -}}',
  '{%- endfor -%}',
  '{%- endmacro -%}',
  "{%- set led = messages and messages[0].role == 'system' -%}",
  '{%- if tools -%}',
  "{{- '<|im_start|>system\\n' -}}",
  "{%- if led -%}{{- text(messages[0].content) ~ '\\n\\n' -}}{%- endif -%}",
  "{{- 'Tools:' -}}",
  "{%- for tool in tools -%}{{- '\\n' ~ (tool | tojson) -}}{%- endfor -%}",
  `{{- '\\nA call of a tool:\\n<tool_call>\\n{"name": "…", "arguments": {…}}\\n</tool_call><|im_end|>\\n' -}}`,
  '{%- endif -%}',
  '{%- for message in messages -%}',
  '{%- if not (loop.first and led and tools) -%}',
  "{{- '<|im_start|>' ~ message.role ~ '\\n' -}}",
  '{%- set said = text(message.content) -%}{%- set called = calls(message) -%}',
  "{{- said ~ (called if said else called[1:]) ~ '<|im_end|>\\n' -}}",
  '{%- endif -%}',
  '{%- endfor -%}',
  "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}",
].join('');
