import { Type } from 'typebox';
import { describe, expect, it } from 'vitest';
import { read } from '../document.ts';
import { TroupeError } from '../errors.ts';

const strict = { additionalProperties: false } as const;
const Sft = Type.Object(
  {
    engine: Type.Optional(Type.Literal('local')),
    method: Type.Literal('sft'),
    steps: Type.Union([Type.Integer({ minimum: 1 }), Type.Record(Type.String(), Type.Integer())]),
  },
  strict,
);
const Rl = Type.Object(
  { engine: Type.Optional(Type.Literal('local')), method: Type.Literal('rl'), groups: Type.Optional(Type.Integer()) },
  strict,
);
const Program = Type.Object(
  { engine: Type.Literal('command'), use: Type.String() },
  { ...strict, refuses: { lora: 'is of the built-in trainer.' } },
);
const Document = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z]+$' }),
    from: Type.Optional(Type.Enum(['base', 'last'])),
    train: Type.Optional(Type.Union([Sft, Rl, Program])),
    when: Type.Optional(
      Type.Union([
        Type.Object({ fell: Type.Object({ by: Type.Number() }, strict) }, strict),
        Type.Object({ drift: Type.Number() }, strict),
      ]),
    ),
    by_role: Type.Optional(Type.Record(Type.String({ pattern: '^[a-z]+$' }), Type.Number({ maximum: 1 }))),
    tasks: Type.Optional(Type.Array(Type.Object({ id: Type.String() }), { minItems: 1 })),
    where: Type.Optional(
      Type.Unsafe<string>({
        reads: (value: unknown, path: string) => {
          if (value !== 'reward > 0') throw new TroupeError('recipe_invalid', `${path} is no filter`, { field: path });
        },
      }),
    ),
  },
  strict,
);

const refused = (value: unknown) => {
  try {
    read(Document, value, { called: 'A document', code: 'plan_invalid', before: 'No: ' });
  } catch (error) {
    return error as TroupeError;
  }
  throw new Error('it was read');
};

describe('A document', () => {
  it('is given back as it is where it fits', () => {
    for (const more of [
      {},
      { from: undefined },
      { train: { method: 'sft', steps: 2 } },
      { train: { method: 'sft', steps: { a: 2 } } },
      { train: { engine: 'local', method: 'rl' } },
      { train: { engine: 'command', use: 'trl' } },
      { when: { drift: 1 }, by_role: { a: 1 }, tasks: [{ id: 'a', other: 1 }], where: 'reward > 0' },
    ]) {
      const value = { name: 'a', ...more };
      expect(read(Document, value, { called: 'A document' })).toBe(value);
    }
  });

  it.each([
    ['text', '', 'A document should be a map of names to values, but it is "text".'],
    [{}, '', 'A document should have name, but it is {}.'],
    [{ name: 'A' }, 'name', 'name should match pattern "^[a-z]+$", but it is "A".'],
    [{ nam: 'a' }, 'nam', 'A document has no "nam". Did you mean name?'],
    [
      { name: 'a', color: 1 },
      'color',
      'A document has no "color". It has name, from, train, when, by_role, tasks, where.',
    ],
    [{ name: 'a', from: 'lost' }, 'from', 'from should be one of base, last, but it is "lost". Did you mean last?'],
    // The tag of a union, whichever of its tags is wrong.
    [
      { name: 'a', train: { method: 'rll' } },
      'train.method',
      'train.method should be one of sft, rl, but it is "rll". Did you mean rl?',
    ],
    [{ name: 'a', train: {} }, 'train.method', 'train.method should be one of sft, rl, but it is nothing.'],
    [
      { name: 'a', train: { engine: 'comand', use: 'x' } },
      'train.engine',
      'train.engine should be one of command, but it is "comand". Did you mean command?',
    ],
    [{ name: 'a', train: 'sft' }, 'train', 'train should be a map of names to values, but it is "sft".'],
    // What its alternative lacks, and not what another has.
    [{ name: 'a', train: { method: 'sft', step: 2 } }, 'train.step', 'train has no "step". Did you mean steps?'],
    [
      { name: 'a', train: { method: 'rl', steps: 2 } },
      'train.steps',
      'train has no "steps". It has engine, method, groups.',
    ],
    [
      { name: 'a', train: { method: 'sft', steps: 0 } },
      'train.steps',
      'train.steps should be at least 1, but it is 0.',
    ],
    [
      { name: 'a', train: { method: 'sft', steps: 'x' } },
      'train.steps',
      'train.steps should be a whole number or a map of names to values, but it is "x".',
    ],
    [
      { name: 'a', train: { method: 'sft', steps: { a: 'x' } } },
      'train.steps.a',
      'train.steps.a should be a whole number, but it is "x".',
    ],
    [
      { name: 'a', train: { engine: 'command', use: 'x', lora: {} } },
      'train.lora',
      'train.lora is of the built-in trainer.',
    ],
    [{ name: 'a', when: { fell: { by: 'x' } } }, 'when.fell.by', 'when.fell.by should be a number, but it is "x".'],
    [{ name: 'a', by_role: { B: 1 } }, 'by_role.B', '"B" cannot be a name in by_role: it should match ^[a-z]+$.'],
    [{ name: 'a', by_role: { b: 2 } }, 'by_role.b', 'by_role.b should be at most 1, but it is 2.'],
    [{ name: 'a', tasks: [] }, 'tasks', 'tasks should not have fewer than 1 items, but it is [].'],
    [{ name: 'a', tasks: [{ id: 'a' }, { id: 2 }] }, 'tasks.1.id', 'tasks.1.id should be a text, but it is 2.'],
    [JSON.parse('{"name":"a","__proto__":{}}'), '__proto__', 'A document has no "__proto__".'],
  ])('%j is refused at %s', (value, field, message) => {
    const error = refused(value);
    expect([error.code, error.detail.field ?? '']).toEqual(['plan_invalid', field]);
    expect(error.message).toContain(`No: ${message}`);
  });

  it('reads a map of any names beside an object with names, whatever the value is called', () => {
    const schema = Type.Union([
      Type.Object({ use: Type.String() }, strict),
      Type.Record(Type.String(), Type.Number()),
      Type.String(),
    ]);
    for (const value of [{ use: 'x' }, { constructor: 1 }, { toString: 2, use: 3 }, 'text'])
      expect(read(schema, value, { called: 'It' })).toBe(value);
    for (const value of [{ constructor: 'x' }, { use: [] }, [], null])
      expect(() => read(schema, value, { called: 'It' })).toThrow(/^(It|use|constructor) (should|has)/);
  });

  it('takes whichever alternative of a union fits, though another knows more of its names', () => {
    const even = Type.Number({ fits: (n: number) => n % 2 === 0, expects: 'an even number' });
    const filter = Document.properties.where;
    const schema = Type.Union([Type.Object({ a: even, b: filter }), Type.Object({ a: Type.Number() })]);
    for (const value of [{ a: 2, b: 'reward > 0' }, { a: 3 }, { a: 3, b: 'x' }])
      expect(read(schema, value, { called: 'It' })).toBe(value);
    expect(() => read(schema, { a: 'x', b: 'reward > 0' }, { called: 'It' })).toThrow('a should be an even number');
  });

  it.each([
    { key: 'sk-1', name: 'a' },
    { key: 'sk-1' },
    { key: 'sk-1', name: 2 },
    { key: 'sk-1', nam: 'a' },
    { key: 'SK' },
  ])('shows no secret of %j, wherever something is wrong', (value) => {
    const secret = Type.String({ expects: 'the name of a variable', pattern: '^[A-Z]+$', secret: true });
    const schema = Type.Object({ key: secret, name: Type.String() }, strict);
    let error: unknown;
    try {
      read(schema, value, { called: 'It' });
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(TroupeError);
    expect(JSON.stringify([(error as TroupeError).message, (error as TroupeError).detail])).not.toMatch(/sk-1|SK/);
  });

  it('leaves a value with a language of its own to its reader, which knows the path', () => {
    const { code, detail } = refused({ name: 'a', where: 'rewrd > 0' });
    expect([code, detail.field]).toEqual(['recipe_invalid', 'where']);
  });

  it('says names before values, and values in the order in which they stand', () => {
    expect(refused({ name: 1, from: 2, nam: 3 }).detail.field).toBe('nam');
    expect(refused({ from: 2, name: 1 }).detail.field).toBe('from');
  });
});
