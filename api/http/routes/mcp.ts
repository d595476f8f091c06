/** The Model Context Protocol over HTTP: a message in, its answer out. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { answerMcp, READING } from '../../mcp/mcp.ts';
import { requestOperation } from '../../operations/job.ts';
import type { ChangeContext } from '../../operations/operation.ts';
import { perform } from '../../operations/perform.ts';
import { isJob } from '../../operations/route.ts';
import { JSON_TYPE, readJson } from '../checked-body.ts';
import { documented } from '../openapi.ts';

const Message = Type.Object(
  { jsonrpc: Type.Literal('2.0'), method: Type.String() },
  { additionalProperties: true, description: 'a JSON-RPC request or notification' },
);

export function mcpRoutes(app: FastifyInstance, context: ChangeContext): void {
  app.post(
    '/mcp',
    documented({
      summary:
        'The Model Context Protocol (2026-07-28), without sessions: the operations that the key may use, as tools.',
      tag: 'mcp',
      scope: 'read',
      body: { types: [...JSON_TYPE], schema: Message },
      answers: { 200: { about: 'the answer' }, 202: { about: 'nothing, to a notification' } },
    }),
    async (request, reply) => {
      const { value } = await readJson(request);
      const asked = { ...context, by: request.identity?.key ?? context.by };
      const answer = await answerMcp(value, {
        scopes: request.identity?.scopes ?? READING,
        perform: (operation, input) =>
          isJob(operation)
            ? requestOperation(asked, operation, { input, key: undefined })
            : perform(operation, operation.live ? { ...asked, catchUp: async () => {} } : asked, input),
        page: `${request.protocol}://${request.host}`,
        version: context.version,
      });
      return answer === null ? reply.code(202).send() : answer;
    },
  );
}
