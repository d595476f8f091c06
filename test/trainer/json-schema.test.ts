import fc from 'fast-check';
import Schema from 'typebox/schema';
import { describe, expect, it } from 'vitest';
import { TroupeError } from '../../errors.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { CHATML_ROLES, CHATML_SPECIAL } from '../../trainer/model/tokens/chatml.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';
import { constraintOf } from '../../trainer/sample/constraint.ts';
import { automatonOf } from '../../trainer/sample/json-automaton.ts';
import { grammarOf } from '../../trainer/sample/json-schema.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { uniformAt } from '../../trainer/tensor/random.ts';
import { tinyConfig } from './tiny-checkpoint.ts';

const WORDS = 'true false null {"name": "a", "of": [1, 2.5, -30], "ünï": "😀 line"}, {"b":"<|im_end|>"}]';
const tokenizer = openTokenizer(trainBpe([WORDS], { vocabSize: 320, special: CHATML_SPECIAL, roles: CHATML_ROLES }));
const end = tokenizer.eos as number;
const voice = { tokenizer, eosIds: [end] };

/** Whether a whole text is one of the schema's grammar. */
function isAllowed(schema: unknown, text: string): boolean {
  const automaton = automatonOf(grammarOf('schema', schema));
  let state: ReturnType<typeof automaton.step> = automaton.start;
  for (const byte of Buffer.from(text)) state = state && automaton.step(state, byte);
  return state !== null && automaton.isWhole(state);
}

/** A text drawn from the allowed tokens alone, each as likely as the others; null where it is not whole after 400. */
function drawn(schema: unknown, seed: number): string | null {
  const walk = constraintOf(voice, JSON.stringify(schema), () => grammarOf('schema', schema))();
  const ids: number[] = [];
  while (ids.length < 400) {
    const allowed = walk.allowed();
    if (walk.isWhole() && (allowed.length === 0 || uniformAt(seed, 2 * ids.length) < 0.5)) return tokenizer.decode(ids);
    ids.push(allowed[Math.floor(uniformAt(seed, 2 * ids.length + 1) * allowed.length)] as number);
    walk.take(ids.at(-1) as number);
  }
  return null;
}

/** Schemas of the part that can be enforced. */
const leaf = fc.oneof(
  fc.constantFrom<object>({ type: 'integer' }, { type: 'number' }, { type: 'boolean' }, { type: 'null' }),
  fc.constant<object>({ type: ['integer', 'null'] }),
  fc
    .uniqueArray(fc.oneof(fc.string({ maxLength: 6 }), fc.integer(), fc.boolean()), { minLength: 1, maxLength: 4 })
    .map((all) => ({ enum: all })),
  fc.jsonValue({ maxDepth: 1 }).map((value) => ({ const: JSON.parse(JSON.stringify(value)) })),
);
const { schema: schemas } = fc.letrec<{ schema: object }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'schema' },
    leaf,
    fc
      .tuple(
        fc.dictionary(
          fc.string({ maxLength: 4 }).filter((name) => name !== '__proto__'),
          tie('schema'),
          { maxKeys: 3 },
        ),
        fc.integer({ min: 0, max: 7 }),
      )
      .map(([properties, mask]) => ({
        type: 'object',
        properties,
        required: Object.keys(properties).filter((_, i) => (mask >> i) % 2 === 1),
        additionalProperties: false,
      })),
    tie('schema').map((values) => ({ type: 'object', additionalProperties: values })),
    fc.tuple(tie('schema'), tie('schema')).map(([a, b]) => ({
      oneOf: [a, b].map((inner, i) => ({
        type: 'object',
        properties: { kind: { const: i }, of: inner },
        required: ['kind'],
      })),
    })),
    fc.record({ items: tie('schema'), least: fc.integer({ min: 0, max: 2 }) }).map(({ items, least }) => ({
      type: 'array',
      items,
      minItems: least,
      maxItems: least + 1,
    })),
    fc.tuple(tie('schema'), tie('schema')).map((anyOf) => ({ anyOf })),
  ),
}));

describe('a text that is sampled within a schema', () => {
  it('parses and is valid, whatever the schema', () => {
    let whole = 0;
    fc.assert(
      fc.property(schemas, fc.integer({ min: 0 }), (schema, seed) => {
        const text = drawn(schema, seed);
        if (text === null) return;
        whole += 1;
        expect(Schema.Check(schema, JSON.parse(text)), `${text} of ${JSON.stringify(schema)}`).toBe(true);
      }),
      { numRuns: 300, seed: 7 },
    );
    expect(whole).toBeGreaterThan(280);
  });

  it('may be any JSON that a schema of known size allows', () => {
    fc.assert(
      fc.property(schemas, fc.integer({ min: 0 }), (schema, seed) => {
        const text = drawn(schema, seed);
        if (text !== null) expect(isAllowed(schema, text)).toBe(true);
      }),
      { numRuns: 50, seed: 8 },
    );
    const point = {
      type: 'object',
      properties: { x: { type: 'number' }, y: { $ref: '#/$defs/y' } },
      required: ['x', 'y'],
    };
    const schema = {
      ...point,
      $defs: { y: { anyOf: [{ type: 'null' }, { type: 'array', items: { type: 'string' } }] } },
    };
    for (const text of ['{"x":1,"y":null}', '{"x": -0.25, "y": ["a\\"b", "ü😀"]}', '{"x":0,"y":[]}'])
      expect([text, isAllowed(schema, text)]).toEqual([text, true]);
    for (const text of [
      '{"y":null,"x":1}',
      '{"x":01,"y":null}',
      '{"x":1.,"y":null}',
      '{"x":1,"y":[1]}',
      '{"x":1}',
      '{"x":1,"y":["\u0001"]}',
      '{"x":1,"y":["\\ud800"]}',
    ])
      expect([text, isAllowed(schema, text)]).toEqual([text, false]);
    const tree = { type: 'object', properties: { of: { type: 'array', items: { $ref: '#' } } }, required: ['of'] };
    expect([isAllowed(tree, '{"of":[{"of":[]},{"of":[]}]}'), isAllowed(tree, '{"of":[{}]}')]).toEqual([true, false]);
    expect(isAllowed({ type: 'object' }, '{"any": [1, {"b": null}], "c": "d"}')).toBe(true);
    expect(isAllowed({ enum: [1, 12, 'a'] }, '12')).toBe(true);
    expect(isAllowed({ type: 'string', enum: ['a', 1] }, '1')).toBe(false);
  });

  it('may leave out what is not required, in the order of the schema', () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'boolean' }, c: { type: 'null' } },
      required: ['b'],
    };
    for (const text of ['{"b":true}', '{"a":1,"b":false}', '{"b": true, "c": null}', '{"a":1,"b":true,"c":null}'])
      expect([text, isAllowed(schema, text)]).toEqual([text, true]);
    for (const text of ['{}', '{"a":1}', '{"b":true,"a":1}', '{"b":true,}', '{,"b":true}', '{"b":true,"b":true}'])
      expect([text, isAllowed(schema, text)]).toEqual([text, false]);
    expect(isAllowed({ type: 'object', properties: { a: {} } }, '{}')).toBe(true);
    expect(isAllowed({ properties: { a: { items: { type: 'null' } } } }, '{"a":[null]}')).toBe(true);
  });

  it('is of one option of oneOf where no value can be of two', () => {
    const shape = (kind: string, more: object) => ({
      type: 'object',
      properties: { kind: { const: kind }, ...more },
      required: ['kind'],
    });
    const tree = {
      $defs: {
        leaf: shape('leaf', {}),
        node: shape('node', { of: { type: 'array', items: { $ref: '#/$defs/any' } } }),
        any: { oneOf: [{ $ref: '#/$defs/leaf' }, { $ref: '#/$defs/node' }], discriminator: { propertyName: 'kind' } },
      },
      $ref: '#/$defs/any',
    };
    expect(isAllowed(tree, '{"kind":"node","of":[{"kind":"leaf"},{"kind":"node"}]}')).toBe(true);
    expect(isAllowed(tree, '{"kind":"leaf","of":[]}')).toBe(false);
    const named = (name: string) => ({ type: 'object', properties: { [name]: {} }, required: [name] });
    expect(isAllowed({ oneOf: [named('a'), named('b')] }, '{"b":1}')).toBe(true);
    expect(isAllowed({ oneOf: [{ type: 'integer' }, { type: 'string' }, { enum: [null, true] }] }, 'true')).toBe(true);
    expect(isAllowed({ allOf: [named('a')] }, '{"a":1}')).toBe(true);
  });

  it('never holds a token that is no text', () => {
    const walk = constraintOf(voice, 's', () => grammarOf('schema', { type: 'string' }))();
    walk.take(tokenizer.id('"') as number);
    const allowed = new Set(walk.allowed());
    for (const name of CHATML_SPECIAL) expect(allowed.has(tokenizer.id(name) as number)).toBe(false);
    expect(allowed.has(tokenizer.id('a') as number)).toBe(true);
  });
});

describe('a schema that cannot be enforced is refused by its keyword', () => {
  it.each([
    [{ type: 'string', minLength: 2 }, 'schema.minLength'],
    [{ type: 'integer', minimum: 0 }, 'schema.minimum'],
    [
      { type: 'object', properties: { a: { pattern: 'x', type: 'string' } }, required: ['a'] },
      'schema.properties.a.pattern',
    ],
    [{ type: 'object', properties: { a: {} }, required: ['b'] }, 'schema.required'],
    [
      { type: 'object', additionalProperties: { type: 'string', format: 'date' } },
      'schema.additionalProperties.format',
    ],
    [{ oneOf: [{ type: 'number' }, { type: 'integer' }] }, 'schema.oneOf[1]'],
    [{ oneOf: [{ const: 'a' }, { type: 'string' }] }, 'schema.oneOf[1]'],
    [
      {
        oneOf: [
          { type: 'object', properties: { a: {} } },
          { type: 'object', properties: { a: {}, b: {} }, required: ['b'] },
        ],
      },
      'schema.oneOf[1]',
    ],
    [{ oneOf: [] }, 'schema.oneOf'],
    [{ allOf: [{ type: 'string' }, { type: 'string' }] }, 'schema.allOf'],
    [{ not: { type: 'string' } }, 'schema.not'],
    [{ type: 'text' }, 'schema.type'],
    [{ $ref: '#/$defs/none' }, 'schema.$ref'],
    [{ $ref: '#/$defs/a', $defs: { a: { anyOf: [{ $ref: '#/$defs/a' }, { type: 'null' }] } } }, 'schema.$ref'],
    [{ enum: [] }, 'schema.enum'],
    ['string', 'schema'],
  ])('%j', (schema, field) => {
    const refused = (): unknown => {
      try {
        return grammarOf('schema', schema);
      } catch (error) {
        return error;
      }
    };
    expect(refused()).toBeInstanceOf(TroupeError);
    expect(refused()).toMatchObject({ code: 'input_refused', detail: { field } });
  });
});

describe('a policy that samples within a schema', () => {
  const config = { ...tinyConfig, vocab_size: tokenizer.vocabSize, max_position_embeddings: 400 };
  const schema = {
    type: 'object',
    properties: { sure: { type: 'boolean' }, n: { type: 'integer' }, why: { enum: ['a', 'b'] } },
    required: ['sure', 'n', 'why'],
  };
  const constraint = constraintOf(voice, JSON.stringify(schema), () => grammarOf('schema', schema));
  const plain = { promptIds: [3, 4, 5], maxTokens: 200, seed: 1, stopIds: [end] };

  it('gives valid texts, with log-probabilities among the allowed tokens and raw ones of the whole vocabulary', async () => {
    const policy = await Policy.load(config, initialWeights(config, 4));
    for (const more of [{ temperature: 1 }, { temperature: 0 }, { temperature: 0.7, topK: 5, topP: 0.9 }]) {
      const [samples] = await policy.sample([{ ...plain, ...more, n: 6, constraint, rawLogprobs: true }]);
      for (const { tokenIds, logprobs, rawLogprobs, finish } of samples!) {
        expect([finish, tokenIds.at(-1)]).toEqual(['stop', end]);
        expect(Schema.Check(schema, JSON.parse(tokenizer.decode(tokenIds.slice(0, -1))))).toBe(true);
        // The end is the only token that may follow.
        expect(logprobs.at(-1)).toBe(0);
        expect(rawLogprobs!.at(-1)).toBeLessThan(-1);
      }
    }
    const sample = (await policy.sample([{ ...plain, temperature: 1, n: 1, constraint }]))[0]![0]!;
    const walk = constraint();
    const allowed = [...walk.allowed()];
    const alternatives = allowed.map((id) => ({ promptIds: plain.promptIds, tokenIds: [id] }));
    const masses = (await policy.logprobs(alternatives)).map(([one]) => Math.exp(one!));
    const whole = masses.reduce((a, b) => a + b, 0);
    expect(sample.logprobs[0]).toBeCloseTo(Math.log(masses[allowed.indexOf(sample.tokenIds[0]!)]! / whole), 4);
    await policy.close();
  });

  it('leaves other samples of the same batch as they are', async () => {
    const policy = await Policy.load(config, initialWeights(config, 4));
    const free = { ...plain, temperature: 1, n: 2, maxTokens: 20 };
    const [alone] = await policy.sample([free]);
    const [beside] = await policy.sample([free, { ...free, constraint }]);
    expect(beside).toEqual(alone);
    await policy.close();
  });
});
