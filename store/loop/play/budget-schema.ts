import { type Static, Type } from 'typebox';

/** What a rollout may use. What is used up ends the handing out of attempts; those that run are not stopped. */
export const Budget = Type.Object(
  {
    tokens: Type.Optional(Type.Integer({ minimum: 1, description: 'tokens of prompts and answers' })),
    seconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, description: 'seconds from the request' })),
    usd: Type.Optional(
      Type.Number({ exclusiveMinimum: 0, description: 'cost by the prices of the upstreams; policies cost nothing' }),
    ),
  },
  { additionalProperties: false, description: 'once one of these is used up, no further attempt is handed out' },
);
export type Budget = Static<typeof Budget>;
