// An agent around a model call; the model is made up.
export function plan(tracer) {
  const agent = { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'planner' };
  tracer.startActiveSpan('invoke_agent planner', { attributes: agent }, (around) => {
    const call = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'made-up',
      'gen_ai.input.messages': JSON.stringify([{ role: 'user', parts: [{ type: 'text', content: 'How far?' }] }]),
      'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', parts: [{ type: 'text', content: 'Far.' }] }]),
    };
    tracer.startSpan('chat made-up', { attributes: call }).end();
    around.end();
  });
}
