/** Parts that the schemas of a plan share. */
import { Type } from 'typebox';

export const strict = { additionalProperties: false } as const;
export const Name = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
  description: 'letters, digits, dot, dash, underscore',
});
export const count = (description: string, minimum = 1) => Type.Optional(Type.Integer({ minimum, description }));
export const factor = (description: string) => Type.Optional(Type.Number({ exclusiveMinimum: 0, description }));
export const clip = (description: string, maximum: number) =>
  Type.Optional(Type.Number({ minimum: 0, maximum, description }));
export const share = (description: string) => Type.Optional(Type.Number({ minimum: 0, description }));
